"""The key of the journal that all tests on one stack share: a journal takes changes of one key only."""

from __future__ import annotations

from pathlib import Path

_KEY = "5e" * 32


def write_journal_key(state: Path) -> None:
    """Write the key where a seamark with this `XDG_STATE_HOME` looks for it."""
    folder = state / "seamark"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = folder / "journal.key"
    file.touch(mode=0o600)
    file.write_text(f"{_KEY}\n")
