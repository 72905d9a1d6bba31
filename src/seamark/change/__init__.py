"""Changing anything: a plan's steps, one executor, the journal, locks and undo."""
