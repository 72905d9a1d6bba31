"""Connectors: values, reads, actions, steps and views."""
