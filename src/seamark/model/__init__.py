"""Frozen values that the whole program shares. No I/O and no third-party import."""
