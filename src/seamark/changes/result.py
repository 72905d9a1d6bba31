"""What became of a change: every step with its outcome, every failure, what was left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from seamark.changes.entry import Ending
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
