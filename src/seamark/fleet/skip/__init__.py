"""Skipping the one record that a sink can't take: finding it, parking it, letting the sink go on behind it."""
