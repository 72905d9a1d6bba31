"""Rights, and the rules that configurations of connectors must follow."""
