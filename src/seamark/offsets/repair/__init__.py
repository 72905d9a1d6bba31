"""Repair misplaced records and duplicate encodings in an offsets topic."""
