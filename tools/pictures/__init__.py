"""The pictures of the documentation: `python -m tools.pictures build` writes them to docs/pictures."""
