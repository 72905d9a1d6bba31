"""The verification of a copy: source and target are compared by counts, checksums and records."""
