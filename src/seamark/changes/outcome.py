"""Outcomes of steps and changes, and the progress interface that reports them."""

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
# The running system may be in an intermediate state: the change stays open until it is resumed or undone.
UNSETTLED = frozenset({Outcome.UNKNOWN, Outcome.FOREIGN})


@dataclass(frozen=True, slots=True)
class StepResult:
    """How one step ended. `error` is the reason if it isn't done, `note` what a check has found."""

    number: int
    kind: str
    subject: str
    words: str
    outcome: Outcome
    error: SeamarkError | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """How a change ended. `ending` is None while it is open: it must be resumed or undone.

    `left` are the steps that were not started. `owed` are those, started or not, that keep the change open because they
    must still be done. `unstable` is why steps were not started, if the workers did not become stable.
    """

    change: str
    title: str
    ending: Ending | None
    steps: tuple[StepResult, ...]
    left: tuple[str, ...] = ()
    owed: tuple[str, ...] = ()
    interrupted: bool = False
    unstable: SeamarkError | None = None

    @property
    def is_done(self) -> bool:
        """Whether every step succeeded."""
        return self.ending is Ending.DONE

    @property
    def failures(self) -> Mapping[str, SeamarkError]:
        """The error of every failed step, by its subject."""
        return {step.subject: step.error for step in self.steps if step.error is not None}


def build_ending(steps: tuple[StepResult, ...], *, left: bool) -> Ending:
    """Return how a change with these results ends when it is closed; `left` is set if steps were not run."""
    if not left and all(step.outcome in GOOD for step in steps):
        return Ending.DONE
    return Ending.PARTLY if any(step.outcome is Outcome.DONE for step in steps) else Ending.FAILED


class Progress(Protocol):
    """Receives the progress of a change. The terminal and the web interface each have one."""

    def opened(self, change: str, *, steps: int) -> None:
        """Report that the change has its ID and its locks."""
        ...

    def begun(self, number: int, words: str) -> None:
        """Report that a step begins."""
        ...

    def waiting(self, words: str) -> None:
        """Report what seamark is waiting for."""
        ...

    def ended(self, result: StepResult) -> None:
        """Report that a step ended."""
        ...


class SilentProgress:
    """A `Progress` that shows nothing."""

    def opened(self, change: str, *, steps: int) -> None:
        """Ignore the event."""

    def begun(self, number: int, words: str) -> None:
        """Ignore the event."""

    def waiting(self, words: str) -> None:
        """Ignore the event."""

    def ended(self, result: StepResult) -> None:
        """Ignore the event."""


class Guarded:
    """Forwards progress to another `Progress`, and ignores write errors: a closed terminal must not interrupt a change.

    Events of parallel step sequences are forwarded one at a time.
    """

    def __init__(self, inner: Progress) -> None:
        self._inner = inner
        self._turn = threading.Lock()

    def opened(self, change: str, *, steps: int) -> None:
        """Report that the change has its ID."""
        with self._turn, suppress(OSError):
            self._inner.opened(change, steps=steps)

    def begun(self, number: int, words: str) -> None:
        """Report that a step begins."""
        with self._turn, suppress(OSError):
            self._inner.begun(number, words)

    def waiting(self, words: str) -> None:
        """Report what seamark is waiting for."""
        with self._turn, suppress(OSError):
            self._inner.waiting(words)

    def ended(self, result: StepResult) -> None:
        """Report how a step ended."""
        with self._turn, suppress(OSError):
            self._inner.ended(result)
