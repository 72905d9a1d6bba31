"""The command blocks of the documentation, run on real servers as a reader would type them."""
