"""The brokers: what seamark asks them and does to them, as our own values and errors."""
