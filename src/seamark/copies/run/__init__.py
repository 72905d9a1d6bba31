"""The run of a copy: its slices on Spark, and how far it is."""
