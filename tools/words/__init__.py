"""Words that texts of the project avoid: where they occur, and a ratchet on how often."""
