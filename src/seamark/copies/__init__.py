"""Copies of a topic to another partition count or Kafka cluster, on Spark."""
