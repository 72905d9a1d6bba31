"""Mutants: safety-critical lines that are broken on purpose, one at a time, to check that a test fails."""
