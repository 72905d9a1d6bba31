"""Topics landed in tables by Spark, each record once."""
