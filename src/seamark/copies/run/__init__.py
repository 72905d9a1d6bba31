"""The run of a copy: its slices on Spark, and its progress."""
