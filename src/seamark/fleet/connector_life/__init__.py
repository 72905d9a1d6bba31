"""Connectors: created, changed, renamed, healed and deleted, each by a plan."""
