"""What the benches of copies share: topics, records, sums of them, and each way to copy."""
