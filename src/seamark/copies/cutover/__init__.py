"""The cutover of consumers and producers to the target topic of a copy, and back."""
