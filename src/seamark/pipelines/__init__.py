"""What Spark shall do, as pure values: routing, slices, control records, offset translation, the plan of a copy.

No I/O, no Spark and no Kafka client: whatever the brokers know comes in as values.
"""
