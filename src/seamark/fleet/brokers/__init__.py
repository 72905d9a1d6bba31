"""Topics and groups: what the brokers hold, how healthy it is, who reads how far."""
