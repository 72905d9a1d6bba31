"""Offsets where they lie: the bytes Connect writes, and the places it writes them to."""
