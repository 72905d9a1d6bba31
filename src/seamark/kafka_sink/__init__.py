"""The exactly-once Kafka sink of Spark: transactional tasks and their control records."""
