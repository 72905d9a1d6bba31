"""Topics: their values, reads, actions, steps and views."""
