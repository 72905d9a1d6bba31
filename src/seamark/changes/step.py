"""A step: one request to the running system, with the state before it and a check of its effect."""

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
    "ConnectorSubject",
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
    """One step of a plan, as it is saved and journaled: its kind, subject and arguments.

    `lane` groups the steps of one step sequence, which succeed or fail together; a failure in one sequence doesn't
    affect the others. `always` marks a step that runs even after an earlier step of its sequence failed, such as
    restoring a connector's state. `fallback` marks a step that runs only after such a failure, if the sequence had
    changed something: it rolls back to the previous state. `insists` marks a step that can't be rolled back: if it
    fails, the change stays open, and a resume retries it.
    """

    kind: str
    subject: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    lane: str = ""
    always: bool = False
    fallback: bool = False
    insists: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the step as a JSON object."""
        return {
            "kind": self.kind,
            "subject": self.subject,
            "arguments": dict(self.arguments),
            "lane": self.lane,
            "always": self.always,
            "fallback": self.fallback,
            # Most plans have none. Omitting the field keeps their JSON identical to that of plans from before the field
            # existed.
            **({"insists": True} if self.insists else {}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> StepData:
        """Build the step from what `to_dict` returned.

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
    """A fact that was true when the plan was created and must still be true when it is applied.

    `kind` and `subject` say what is compared, `expected` is its fingerprint, `words` describes it for people.
    """

    kind: str
    subject: str
    expected: str
    words: str = ""


class Observed(StrEnum):
    """The state of a step's effect, as observed in the running system."""

    AFTER = "after"
    BEFORE = "before"
    BETWEEN = "between"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class Intent:
    """The state that a step found and the state it wants, written to the journal before the step acts.

    JSON, without secrets. `before` and `after` are images of the step's aspect of its subject, comparable with the
    images of other steps on that aspect. `extra` holds what undo needs in addition.
    """

    before: Any
    after: Any
    extra: Any = None

    def to_dict(self) -> dict[str, Any]:
        """Return the intent as a JSON object for the journal."""
        return {"before": self.before, "after": self.after, "extra": self.extra}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Intent:
        """Build the intent from what `to_dict` returned."""
        return cls(before=data["before"], after=data["after"], extra=data["extra"])


@dataclass(frozen=True, slots=True)
class CanNotUndo:
    """The reason why a step can't be undone. `names_step` is set if the reason already names the step."""

    because: str
    names_step: bool = False


class Step(ABC):
    """One request to the running system: a frozen dataclass whose fields are what a plan stores.

    Printing, applying and undoing a step use the same fields. The class variables are traits; the executor treats steps
    with the same traits alike.
    """

    __slots__ = ()

    # The name of the kind in plans and in the journal; `step_kind` sets it.
    kind: ClassVar[str]
    # Which aspect of the subject its images show: "config", "state". Images of the same aspect can be compared.
    aspect: ClassVar[str]
    # Whether that aspect changes without an operator, as the set of failed tasks does. If so, a different image is not
    # a conflict.
    drifts: ClassVar[bool] = False
    # Whether the step changes the plan's resource. A check or a wait doesn't: it is repeated after a crash, and not
    # undone.
    acts: ClassVar[bool] = True
    # Whether a check also writes, such as a fence in a ledger. If so, it has an intent, too.
    writes: ClassVar[bool] = False
    # Whether the step writes absolute values, so that a partial write may be repeated completely
    # (`OutcomeResolver.is_half`).
    repeats: ClassVar[bool] = False
    # Whether the step proves that nothing else writes: immediately before it acts or, for a check, before the steps
    # after it.
    proves: ClassVar[bool] = False
    # Whether the result of a check is valid for a short time only, so that it is checked again before a late request.
    expires: ClassVar[bool] = False
    # Whether it changes what a spec declares: a connector's config or a pipeline.
    declares: ClassVar[bool] = False
    # Whether its images show offsets that its subject had; `read_positions` reads them.
    shows_positions: ClassVar[bool] = False
    # Whether a request without an answer may still take effect later.
    lands_late: ClassVar[bool] = True
    # Whether the running system shows that the request took effect. A restarted task looks as before: then only the
    # answer counts, and a request without an answer is sent again.
    is_observable: ClassVar[bool] = True

    @property
    def settle_seconds(self) -> float:
        """How long the effect may take to become visible after the call returned. After that, the step has failed."""
        return 60.0

    @property
    @abstractmethod
    def subject(self) -> str:
        """The resource that the step acts on, as users write it: `connector/game/log-purchase`."""

    @abstractmethod
    def describe(self) -> str:
        """Return a short description of what the step does to the running system."""

    @abstractmethod
    def intend(self, world: Environment) -> Intent:
        """Read the current state and return it together with the wanted one. Changes nothing."""

    @abstractmethod
    def perform(self, world: Environment, intent: Intent) -> str | None:
        """Send the request.

        Any error except UnknownOutcomeError and JournalError means that the request had no effect. The return value may
        be a short note on what was seen or done, for users and the journal.
        """

    @abstractmethod
    def observe(self, world: Environment, intent: Intent) -> Observed:
        """Compare the running system with the intent: as intended, as before, in between, or neither."""

    @abstractmethod
    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        """Return the step that undoes this one, the reason why there is none, or None if there is nothing to undo."""

    def find_clusters(self) -> tuple[str, ...]:
        """Return the Connect clusters that the step acts on: its fields `cluster` and `clusters`."""
        return (*(one for one in (getattr(self, "cluster", ""),) if one), *getattr(self, "clusters", ()))

    def read_positions(self, image: Any) -> Iterable[Offset]:
        """Return the offsets that an image of this step shows."""
        del image
        return ()

    def build_left(self, intent: Intent) -> Any:
        """Return the image that the step leaves when it is done."""
        return intent.after

    def to_data(self, *, lane: str = "", always: bool = False) -> StepData:
        """Return the step as a plan stores it: without secrets."""
        return StepData(self.kind, self.subject, encode_fields(self), lane=lane, always=always)

    @classmethod
    def from_data(cls, data: StepData) -> Self:
        """Build the step from what `to_data` returned.

        Raises:
            CodecError: an argument is unknown, is missing, or has another type.
        """
        return decode_fields(cls, data.arguments)


@dataclass(frozen=True, slots=True)
class ConnectorSubject:
    """The subject of steps and actions on one connector: connector `name` in Connect cluster `cluster`."""

    cluster: str
    name: str

    @property
    def subject(self) -> str:
        """The connector, as users write it."""
        return f"connector/{self.cluster}/{self.name}"


STEPS: dict[str, type[Step]] = {}
"""Every step kind by its name; complete once `seamark.fleet.kinds` is imported."""

S = TypeVar("S", bound=Step)


def step_kind(kind: str) -> Callable[[type[S]], type[S]]:
    """Register a class as the steps of this kind, the name that plans and the journal use."""

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
        UsageError: the kind is unknown, or the arguments don't match this kind.
    """
    kind = STEPS.get(data.kind)
    if kind is None:
        raise UsageError(
            f"unknown step {data.kind!r} in the plan", hint="apply the plan with the seamark version that created it"
        )
    return kind.from_data(data)


# During a rebalance, a worker shows a change within seconds. After a minute, the Connect cluster has a problem.
SETTLE_SECONDS = 60.0


def compare_image(image: Any, intent: Intent) -> Observed:
    """Compare an image with an intent's `before` and `after`."""
    if image == intent.after:
        return Observed.AFTER
    return Observed.BEFORE if image == intent.before else Observed.FOREIGN


def compare_places(now: Any, intent: Intent, part: str) -> Observed:
    """Compare an image with an intent entry by entry; `part` names the mapping of entries in the images.

    If each entry is either as before or as after, the write is partly done (BETWEEN).
    """
    seen = compare_image(now, intent)
    if seen is not Observed.FOREIGN:
        return seen
    before, after = ((image or {}).get(part, {}) for image in (intent.before, intent.after))
    known = all(value in (before.get(place), after.get(place)) for place, value in now[part].items())
    return Observed.BETWEEN if known else Observed.FOREIGN
