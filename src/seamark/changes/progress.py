"""Who is told how a change goes."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Protocol

from seamark.changes.result import StepResult


class Progress(Protocol):
    """Told as a change goes on. The terminal and the web each have one."""

    def opened(self, change: str, *, steps: int) -> None:
        """The change has its id and its locks."""
        ...

    def begun(self, number: int, words: str) -> None:
        """A step begins."""
        ...

    def waiting(self, words: str) -> None:
        """Something is waited for."""
        ...

    def ended(self, result: StepResult) -> None:
        """A step ended."""
        ...


class Silent:
    """Tells nobody."""

    def opened(self, change: str, *, steps: int) -> None:
        """Nobody is told."""

    def begun(self, number: int, words: str) -> None:
        """Nobody is told."""

    def waiting(self, words: str) -> None:
        """Nobody is told."""

    def ended(self, result: StepResult) -> None:
        """Nobody is told."""


class Guarded:
    """Tells another one, and goes on if that one can't write: a closed terminal must not break a change in two.

    It tells one thing at a time, whichever lane it comes from.
    """

    def __init__(self, inner: Progress) -> None:
        self._inner = inner
        self._turn = threading.Lock()

    def opened(self, change: str, *, steps: int) -> None:
        """Tell that the change has its id."""
        with self._turn, suppress(OSError):
            self._inner.opened(change, steps=steps)

    def begun(self, number: int, words: str) -> None:
        """Tell that a step begins."""
        with self._turn, suppress(OSError):
            self._inner.begun(number, words)

    def waiting(self, words: str) -> None:
        """Tell what is waited for."""
        with self._turn, suppress(OSError):
            self._inner.waiting(words)

    def ended(self, result: StepResult) -> None:
        """Tell how a step ended."""
        with self._turn, suppress(OSError):
            self._inner.ended(result)
