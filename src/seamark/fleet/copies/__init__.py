"""Copies of topics: planning them, running them, and turning readers and writers over to them."""
