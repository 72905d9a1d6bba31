"""Views over several resources: the status of a fleet."""
