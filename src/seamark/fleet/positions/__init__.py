"""Reading positions: what every owner remembers, in every place where it is kept."""
