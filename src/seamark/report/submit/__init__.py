"""A run that is given away, as text for whoever runs it."""
