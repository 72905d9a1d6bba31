"""Who is told how a change goes."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from seamark.changes.journal import Ending
from seamark.errors import SeamarkError


class Outcome(StrEnum):
    """How a step ended."""

    DONE = "done"
    NOTHING_TO_DO = "nothing to do"
    DID_NOT_HAPPEN = "did not happen"
    UNKNOWN = "unknown"
    FOREIGN = "foreign change"


GOOD = frozenset({Outcome.DONE, Outcome.NOTHING_TO_DO})
# The running system may be in between: the change stays open until somebody resumes or undoes it.
UNSETTLED = frozenset({Outcome.UNKNOWN, Outcome.FOREIGN})


@dataclass(frozen=True, slots=True)
class StepResult:
    """How one step ended. `error` says why it is not done, `note` what one that only looks has seen."""

    number: int
    kind: str
    subject: str
    words: str
    outcome: Outcome
    error: SeamarkError | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """How a change ended. `ending` is None while it is open: it must be resumed or undone."""

    change: str
    title: str
    ending: Ending | None
    steps: tuple[StepResult, ...]
    left: tuple[str, ...] = ()
    interrupted: bool = False

    @property
    def is_done(self) -> bool:
        """Whether every step did what it should."""
        return self.ending is Ending.DONE

    @property
    def failures(self) -> Mapping[str, SeamarkError]:
        """Every step that failed, by its subject."""
        return {step.subject: step.error for step in self.steps if step.error is not None}


def build_ending(steps: tuple[StepResult, ...], *, left: bool) -> Ending:
    """How a change with these step results ends when it is closed; `left` says whether steps were left out."""
    if not left and all(step.outcome in GOOD for step in steps):
        return Ending.DONE
    return Ending.PARTLY if any(step.outcome is Outcome.DONE for step in steps) else Ending.FAILED


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


class SilentProgress:
    """A `Progress` that shows nothing."""

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
