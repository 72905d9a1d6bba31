"""Programs for those who work on seamark: checks, recordings, soaks, coverage, the dependency audit."""
