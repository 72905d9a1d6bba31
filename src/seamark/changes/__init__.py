"""Plans of actions and steps, the executor, the journal, locks, undo and recovery."""
