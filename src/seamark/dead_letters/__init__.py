"""Skip a record that a sink connector can't process, and keep it in a dead letter queue."""
