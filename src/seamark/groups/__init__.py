"""Consumer groups: their values, reads, actions, steps and views."""
