"""Values that packages share which don't import each other; standard library only."""
