"""Topics: values, reads, actions, steps and views."""
