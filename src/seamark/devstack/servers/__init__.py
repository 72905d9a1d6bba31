"""One module for each kind of server: its files, its command, its readiness check."""
