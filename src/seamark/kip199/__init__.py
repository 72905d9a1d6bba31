"""`connect-offsets`: the offsets of a worker that is known only from its properties file (KIP-199)."""
