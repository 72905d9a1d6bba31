"""How far one command line goes through the code."""
