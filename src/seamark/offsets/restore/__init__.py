"""Restore offsets to a point in time, from observations."""
