"""Read, compare and export offsets."""
