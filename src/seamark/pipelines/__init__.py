"""Pipelines: declared Spark jobs that land topics in tables."""
