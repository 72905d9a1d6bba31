"""A step: one act on the running system, that knows what was before and how to see what is now."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Self, TypeVar

from seamark.changes.codec import decode_fields, encode_fields
from seamark.changes.environment import Environment
from seamark.changes.outcome import Outcome
from seamark.core.offsets import Offset
from seamark.core.strict_json import read_text, read_truth
from seamark.errors import UsageError

__all__ = [
    "SETTLE_SECONDS",
    "STEPS",
    "CanNotUndo",
    "Intent",
    "Observed",
    "Outcome",
    "Precondition",
    "Step",
    "StepData",
    "compare_image",
    "compare_places",
    "step_kind",
]


_STEP_FIELDS = frozenset({"kind", "subject", "arguments", "lane", "always", "fallback", "insists"})


@dataclass(frozen=True, slots=True)
class StepData:
    """One act of a plan, as it is saved and journalled: what kind, on what, with which arguments.

    `lane` groups steps that stand or fall together; a failure in one lane leaves the others alone.
    `always` marks a step that runs even after a failure before it in its lane, such as restoring a run state.
    `fallback` marks one that runs only after such a failure, where the lane had acted: the way back to what stood.
    `insists` marks one behind which there is no way back: where it fails, the change stays open, and a resume tries it
    again.
    """

    kind: str
    subject: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    lane: str = ""
    always: bool = False
    fallback: bool = False
    insists: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The step as JSON takes it."""
        return {
            "kind": self.kind,
            "subject": self.subject,
            "arguments": dict(self.arguments),
            "lane": self.lane,
            "always": self.always,
            "fallback": self.fallback,
            # Most plans have none: they look as they did before there was such a mark.
            **({"insists": True} if self.insists else {}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> StepData:
        """Read what `to_dict` gave.

        Raises:
            UsageError: a field is unknown, missing or of another type.
        """
        if not data.keys() <= _STEP_FIELDS:
            raise UsageError(
                "a step of the plan can't be read", cause="it has unknown fields", hint="create a new plan"
            )
        arguments = data.get("arguments")
        if not isinstance(arguments, Mapping):
            raise UsageError("a step of the plan can't be read", cause="it has no arguments", hint="create a new plan")
        return cls(
            kind=read_text(data.get("kind"), what="the kind of a step"),
            subject=read_text(data.get("subject"), what="the subject of a step"),
            arguments=dict(arguments),
            lane=read_text(data.get("lane", ""), what="the sequence of a step"),
            always=read_truth(data.get("always", False), what="`always` of a step"),
            fallback=read_truth(data.get("fallback", False), what="`fallback` of a step"),
            insists=read_truth(data.get("insists", False), what="`insists` of a step"),
        )


@dataclass(frozen=True, slots=True)
class Precondition:
    """What was so when the plan was made and must still be so when it is applied.

    `kind` and `subject` say what is compared, `expected` holds its fingerprint, `words` says it to a person.
    """

    kind: str
    subject: str
    expected: str
    words: str = ""


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
    """Why a step can't be taken back. `names_step` says that the reason names it."""

    because: str
    names_step: bool = False


class Step(ABC):
    """One act on the running system: a frozen dataclass, whose fields are what a plan holds of it.

    Printing, applying and undoing a step use the same fields. The class variables are traits, by which the executor
    treats steps of a kind alike.
    """

    __slots__ = ()

    # The name of the kind in plans and in the journal; `step_kind` sets it.
    kind: ClassVar[str]
    # Which side of the subject its images show: "config", "state". Images of one aspect can be compared.
    aspect: ClassVar[str]
    # Whether that side changes without an operator, as failed tasks do. Then finding another image is no conflict.
    drifts: ClassVar[bool] = False
    # Whether it changes what a plan is about. A check or a wait does not: it is repeated after a crash, and not undone.
    acts: ClassVar[bool] = True
    # Whether a check writes while it checks, such as a fence in a ledger: then it has an intent, too.
    writes: ClassVar[bool] = False
    # Whether it writes absolute values, so that a partial write may be repeated as a whole (`OutcomeResolver.is_half`).
    repeats: ClassVar[bool] = False
    # Whether it proves that nothing else writes: right before it acts or, for a check, before the steps after it.
    proves: ClassVar[bool] = False
    # Whether what a check found holds for a short time only, so that it is checked again before a late act.
    expires: ClassVar[bool] = False
    # Whether it changes what a spec declares: a connector's config or a pipeline.
    declares: ClassVar[bool] = False
    # Whether its images show offsets that its subject had; `read_positions` reads them.
    shows_positions: ClassVar[bool] = False
    # Whether a request without an answer may still take effect later.
    lands_late: ClassVar[bool] = True

    @property
    def settle_seconds(self) -> float:
        """How long its effect may take to show after the call returned; then the step has failed."""
        return 60.0

    @property
    @abstractmethod
    def subject(self) -> str:
        """What it acts on, as a person names it: `connector/game/log-purchase`."""

    @abstractmethod
    def describe(self) -> str:
        """Return what it does to the running system, in a few words."""

    @abstractmethod
    def intend(self, world: Environment) -> Intent:
        """Read the present state, and return it with the wanted one. Changes nothing."""

    @abstractmethod
    def perform(self, world: Environment, intent: Intent) -> str | None:
        """Act. Errors say whether it happened: UnknownOutcomeError and JournalError aside, it did not.

        It may return what it saw or did in a few words, for people and the journal.
        """

    @abstractmethod
    def observe(self, world: Environment, intent: Intent) -> Observed:
        """Compare the running system with the intent: is it as intended, as before, in between, or neither?"""

    @abstractmethod
    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        """Return the step that undoes this one, or why there is none; None where there is nothing to undo."""

    def find_clusters(self) -> tuple[str, ...]:
        """Return the Connect clusters that the step acts on: its fields `cluster` and `clusters`."""
        return (*(one for one in (getattr(self, "cluster", ""),) if one), *getattr(self, "clusters", ()))

    def read_positions(self, image: Any) -> Iterable[Offset]:
        """Return the offsets that an image of this step shows."""
        del image
        return ()

    def build_left(self, intent: Intent) -> Any:
        """Return the image of what the step leaves when it is done."""
        return intent.after

    def to_data(self, *, lane: str = "", always: bool = False) -> StepData:
        """Return the step as a plan holds it: without secrets."""
        return StepData(self.kind, self.subject, encode_fields(self), lane=lane, always=always)

    @classmethod
    def from_data(cls, data: StepData) -> Self:
        """Build the step from what `to_data` returned.

        Raises:
            CodecError: an argument is unknown, is missing, or has another type.
        """
        return decode_fields(cls, data.arguments)


STEPS: dict[str, type[Step]] = {}
"""Every kind of step by its name, once `seamark.fleet.kinds` is imported."""

S = TypeVar("S", bound=Step)


def step_kind(kind: str) -> Callable[[type[S]], type[S]]:
    """Register a class as the steps of this kind; plans and the journal know them by that name."""

    def register(cls: type[S]) -> type[S]:
        if kind in STEPS:
            raise ValueError(f"{cls.__name__}: the step kind {kind!r} is already that of {STEPS[kind].__name__}")
        cls.kind = kind
        STEPS[kind] = cls
        return cls

    return register


def build_step(data: StepData) -> Step:
    """Build the step that a plan's data describes.

    Raises:
        UsageError: the kind is unknown, or the arguments are not those of this kind.
    """
    kind = STEPS.get(data.kind)
    if kind is None:
        raise UsageError(
            f"this seamark does not know the step {data.kind!r}", hint="apply the plan with the version that made it"
        )
    return kind.from_data(data)


# A worker that takes part in a rebalance shows a change within seconds; a minute is a cluster in trouble.
SETTLE_SECONDS = 60.0


def compare_image(image: Any, intent: Intent) -> Observed:
    """Where an image stands between an intent's before and after."""
    if image == intent.after:
        return Observed.AFTER
    return Observed.BEFORE if image == intent.before else Observed.FOREIGN


def compare_places(now: Any, intent: Intent, part: str) -> Observed:
    """The same for an image whose `part` names places: where each is as before or as after, a part of it is done."""
    seen = compare_image(now, intent)
    if seen is not Observed.FOREIGN:
        return seen
    before, after = ((image or {}).get(part, {}) for image in (intent.before, intent.after))
    known = all(value in (before.get(place), after.get(place)) for place, value in now[part].items())
    return Observed.BETWEEN if known else Observed.FOREIGN
