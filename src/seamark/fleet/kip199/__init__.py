"""`connect-offsets`: the offsets of a worker that is known from its properties file alone."""
