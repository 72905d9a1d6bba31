"""Offsets of connectors, consumer groups and pipelines: read, move, copy, restore and repair them."""
