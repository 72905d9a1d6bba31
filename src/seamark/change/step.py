"""A step: one act on the running system, that knows what was before and how to see what is now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Protocol, Self

from seamark.change.world import World
from seamark.model.plan import StepData
from seamark.model.result import Outcome

__all__ = ["CanNotUndo", "Intent", "Observed", "Outcome", "Step"]


class Observed(StrEnum):
    """What is seen of a step's act in the running system."""

    AFTER = "after"
    BEFORE = "before"
    BETWEEN = "between"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class Intent:
    """What a step found and what it wants, written to the journal before it acts. JSON, without secrets.

    `before` and `after` are images of the step's aspect of its subject, comparable with those of other steps of that
    aspect. `extra` is what undo needs beside them.
    """

    before: Any
    after: Any
    extra: Any = None

    def to_dict(self) -> dict[str, Any]:
        """As the journal takes it."""
        return {"before": self.before, "after": self.after, "extra": self.extra}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Intent:
        """Read what `to_dict` gave."""
        return cls(before=data["before"], after=data["after"], extra=data["extra"])


@dataclass(frozen=True, slots=True)
class CanNotUndo:
    """Why a step can't be taken back."""

    because: str


class Step(Protocol):
    """One act. A frozen value: printing it, applying it and undoing it use the same fields."""

    kind: ClassVar[str]
    # Which side of the subject its images show: "config", "state". Images of one aspect can be compared.
    aspect: ClassVar[str]
    # Whether that side changes without anybody's doing, as failed tasks do. What it finds is then nobody's fault.
    drifts: ClassVar[bool]
    # Whether it changes anything. One that only waits needs no intent: a crash in it leaves nothing to settle.
    acts: ClassVar[bool]
    # Beside these, a step may say `repeats`: what it writes is absolute, so that a write of which a part is done may be
    # done once more, all of it, on the word of the same intent (`Settler.is_half`); and `proves`: it makes sure itself,
    # right before it acts, that nobody else writes. Otherwise a look before it must.

    @property
    def settle_seconds(self) -> float:
        """How long its effect may take to show after the call came back; then the step has failed."""
        ...

    @property
    def subject(self) -> str:
        """What it acts on, as a person names it: `connector/game/log-purchase`."""
        ...

    def describe(self) -> str:
        """What it does to the running system, in a few words."""
        ...

    def intend(self, world: World) -> Intent:
        """Read what is now, and say what shall be. Changes nothing."""
        ...

    def perform(self, world: World, intent: Intent) -> str | None:
        """Act. Errors say whether it happened: UnknownOutcomeError and JournalError aside, it did not.

        It may give what it saw or did in a few words, for people and the journal.
        """
        ...

    def observe(self, world: World, intent: Intent) -> Observed:
        """Look at the running system: is it as intended, as before, in between, or neither?"""
        ...

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        """The step that takes this one back, or why there is none; None where there is nothing to take back."""
        ...

    def to_data(self, *, lane: str = "", always: bool = False) -> StepData:
        """As a plan holds it: without secrets."""
        ...

    @classmethod
    def from_data(cls, data: StepData) -> Self:
        """Read what `to_data` gave."""
        ...
