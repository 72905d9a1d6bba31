"""Connectors: their values, reads, actions, steps and views."""
