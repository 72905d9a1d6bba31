"""Actions: what a plan is made of.

An action says what a plan does to one resource. It is one line of text, one object in JSON, one step sequence and one
unit of undo. The action holds everything that is written. Everything else (effects, locks, rights, guards, steps) is
derived from the action and from what `inspect` reads, and is never read from a file: an edited plan file can change
what a plan does, which its text then shows, but it can't leave a guard out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from enum import StrEnum
from functools import partial
from typing import Any, ClassVar, Protocol, Self, TypeVar

from seamark.changes.codec import decode_fields, encode_fields
from seamark.changes.effect import Effect
from seamark.changes.environment import Environment
from seamark.changes.outcome import GOOD
from seamark.changes.step import CanNotUndo, Intent, Outcome, Step, StepData
from seamark.core.readings import read_all
from seamark.core.refs import ConnectorType, Port
from seamark.core.secrets import is_reference
from seamark.errors import DeadlineError, UsageError
from seamark.policy.permissions import Permission, Right

P = TypeVar("P")
A = TypeVar("A", bound="type[Action]")
S = TypeVar("S", bound=Step)

_KINDS: dict[str, type[Action]] = {}


def needs_permission(*permissions: Permission) -> Callable[[A], A]:
    """Declare what a role must allow for actions of a class."""

    def declare(cls: A) -> A:
        cls.permissions = frozenset(permissions)
        return cls

    return declare


class When(StrEnum):
    """When a step of a sequence runs."""

    TURN = "turn"
    # Even after a failure before it, such as restoring a connector's state.
    ALWAYS = "always"
    # Only after a failure that is certain, in a sequence that had acted: the way back to what was there before.
    FALLBACK = "fallback"
    # There is no way back from here: if it fails, the change stays open, and a resume tries it again.
    INSISTS = "insists"


StepSequence = tuple[tuple[Step, When], ...]
"""The steps of one action, in order. A failure in one sequence leaves the others alone."""


def in_turn(*steps: Step) -> StepSequence:
    """Return a sequence whose steps run one after the other, until one fails."""
    return tuple((step, When.TURN) for step in steps)


class LockNames(Protocol):
    """How locks of a Connect cluster's things are named. Clusters are known by the name that the context gives them."""

    def find_connector(
        self, cluster: str, name: str, configs: Sequence[Mapping[str, str]], *, kind: ConnectorType
    ) -> frozenset[str]:
        """Return the locks of a connector, with all the configs that it has or will have."""
        ...

    def find_cluster(self, cluster: str) -> str:
        """Return the lock of a whole Connect cluster."""
        ...

    def find_loggers(self, cluster: str) -> str:
        """Return the lock of the log levels of a cluster's workers."""
        ...

    def find_groups(self, groups: Sequence[str]) -> Sequence[frozenset[str]]:
        """Return the locks of consumer groups; a sink's group is one of its Connect cluster."""
        ...


LOCKS: Port[LockNames] = Port("locks")


class Reads:
    """What `inspect` may read. Answers may be kept for the plan in the making; a step never gets one of these."""

    def __init__(self, world: Environment, ports: Mapping[Port[Any], Any] | None = None) -> None:
        self.world = world
        self._ports = dict(ports or {})

    def use(self, port: Port[P]) -> P:
        """Return the capability that is registered under a key.

        Raises:
            KeyError: none is.
        """
        found: P = self._ports[port]
        return found

    def over(self, world: Environment) -> Reads:
        """Return the same capabilities over another world, such as a snapshot."""
        return Reads(world, self._ports)


@dataclass(frozen=True, slots=True)
class ConfigWrite:
    """A connector config that an action writes, for the policy and for the plugin's validation.

    `config` is the config with references; the values of the keys `keep` stay as Connect holds them. The plugin is
    asked only where `is_validated`: not for a config that the connector had before.
    """

    cluster: str
    name: str
    config: Mapping[str, str] = field(repr=False)
    keep: tuple[str, ...] = ()
    is_validated: bool = True

    @property
    def subject(self) -> str:
        """The connector, as a person names it."""
        return f"connector/{self.cluster}/{self.name}"


@dataclass(frozen=True, slots=True)
class NewName:
    """The name of a connector that an action creates; unless `is_certain`, only if there is none of that name yet."""

    cluster: str
    name: str
    is_certain: bool = True


@dataclass(frozen=True, slots=True)
class Needs:
    """What an action needs before it may run: locks, rights of the brokers, configs that the policy allows.

    Where several actions of a plan name the same `wide_lock`, that one is taken instead of their `locks`: a change of a
    thousand connectors takes the lock of their Connect cluster.
    """

    locks: frozenset[str] = frozenset()
    rights: frozenset[Right] = frozenset()
    configs: tuple[ConfigWrite, ...] = ()
    wide_lock: str = ""


@dataclass(frozen=True, slots=True)
class PastStep:
    """A step of a change as the journal knows it."""

    step: Step
    intent: Intent | None
    outcome: Outcome | None

    @property
    def may_have_acted(self) -> bool:
        """Whether the step did something, or may have."""
        return self.intent is not None and self.outcome in (Outcome.DONE, Outcome.UNKNOWN)

    @property
    def is_good(self) -> bool:
        """Whether the step is known to have done what it should, or to have found it done."""
        return self.outcome in GOOD


@dataclass(frozen=True, slots=True)
class ActionHistory:
    """What became of one action: its steps in order, with what each found and how each ended."""

    steps: tuple[PastStep, ...]

    def find_all(self, kind: type[Step]) -> tuple[PastStep, ...]:
        """Return the steps of that class that may have acted, in order."""
        return tuple(one for one in self.steps if type(one.step) is kind and one.may_have_acted)

    def find(self, kind: type[Step]) -> PastStep | None:
        """Return the last of them; None where there is none."""
        found = self.find_all(kind)
        return found[-1] if found else None

    def undo_all(self, kind: type[Step], back: type[S]) -> tuple[S, ...]:
        """Return the steps of the class `back` that take back those of the class `kind`, the last one first."""
        undone = (one.step.undo(one.intent) for one in reversed(self.find_all(kind)) if one.intent is not None)
        return tuple(step for step in undone if isinstance(step, back))

    def undo_last(self, kind: type[Step], back: type[S]) -> S | None:
        """Return the step of the class `back` that takes back the last one of the class `kind`."""
        found = self.undo_all(kind, back)
        return found[0] if found else None

    def find_refusal(self) -> CanNotUndo | None:
        """Return why steps that may have acted can't be taken back, and which; None where all can."""
        reasons = []
        for one in reversed(self.steps):
            back = one.step.undo(one.intent) if one.intent is not None and one.may_have_acted else None
            if isinstance(back, CanNotUndo):
                reasons.append(f"{one.step.describe()}: {back.because}")
        return CanNotUndo("; ".join(reasons), names_step=True) if reasons else None


class Action(ABC):
    """What a plan does to one resource. Subclasses are frozen dataclasses, registered with `@action_kind`."""

    __slots__ = ()
    kind: ClassVar[str]
    # What a role must allow; `needs_permission` sets it.
    permissions: ClassVar[frozenset[Permission]]
    # Whether an undo leaves the resource alone where it is already as it should be: a rewound source that has caught up
    # is one. Elsewhere somebody else has changed the resource since, and the undo is out of date.
    reaches_by_itself: ClassVar[bool] = False
    # The fields that `effects` shows in full; the complete text of a plan lists the others (`find_settings`).
    shown: ClassVar[frozenset[str]] = frozenset({"cluster", "name"})

    @property
    @abstractmethod
    def subject(self) -> str:
        """The resource, as a person names it: `connector/game/log-purchase`."""

    def find_permissions(self) -> frozenset[Permission]:
        """Return what a role must allow for this action."""
        return self.permissions

    @property
    def sequence(self) -> str:
        """The name of the step sequence: those of equal names are one sequence."""
        return self.subject

    @classmethod
    @abstractmethod
    def inspect(cls, actions: Sequence[Self], reads: Reads) -> Sequence[Any]:
        """Read what all of these actions need to know: one answer per action, few calls for many.

        Raises:
            RefusedError: one of them must not be done.
        """

    @abstractmethod
    def steps(self, seen: Any) -> StepSequence:
        """Return the steps, guards included; none where there is nothing to do."""

    @abstractmethod
    def needs(self, seen: Any) -> Needs:
        """Return what must be held and allowed before the steps run."""

    @abstractmethod
    def effects(self, seen: Any) -> tuple[Effect, ...]:
        """Return the lines that show people what the action does."""

    def notes(self, seen: Any) -> tuple[str, ...]:
        """Return what the reader of the plan must know beside its lines."""
        del seen
        return ()

    def undo_notes(self, seen: Any) -> tuple[str, ...]:
        """Return the same where the action takes a change back."""
        del seen
        return ()

    def find_new_names(self) -> tuple[NewName, ...]:
        """Return the connectors that the action may create: the policy judges names before a server is asked."""
        return ()

    def find_intents(self, seen: Any) -> Mapping[str, Intent]:
        """Return what `inspect` already knows that steps find, by `SUBJECT#ASPECT`: it is not read again."""
        del seen
        return {}

    @abstractmethod
    def build_undo(self, past: ActionHistory) -> Action | CanNotUndo | None:
        """Return the action that takes this one back; None where there is nothing to take back."""

    def find_settings(self) -> dict[str, Any]:
        """Return the fields that `effects` doesn't show and that aren't at their defaults, as JSON without secrets.

        A field that is added to an action is listed, until its class says that `effects` shows it. Of a config that
        `effects` shows, references to secrets are listed: a line shows only that the secret changes.
        """
        found: dict[str, Any] = {}
        encoded = encode_fields(self)
        for one in fields(self):  # type: ignore[arg-type]  # every action is a dataclass
            value = encoded.get(one.name)
            if one.name in self.shown and isinstance(value, Mapping):
                if references := {key: text for key, text in value.items() if is_reference(text)}:
                    found[one.name] = references
            elif one.name in encoded and one.name not in self.shown and getattr(self, one.name) != _find_default(one):
                found[one.name] = value
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the action as plan files and the journal hold it: without secrets."""
        return {"action": self.kind, **encode_fields(self)}


@dataclass(frozen=True, slots=True)
class StepSeen:
    """What a step that is an action by itself finds, and the locks of its subject.

    `tasks` run on it now. `read_leftovers` reads what stays behind where the step deletes its subject.
    """

    intent: Intent
    locks: frozenset[str] = frozenset()
    tasks: int = 0
    read_leftovers: Callable[[], tuple[str, ...]] = field(default=tuple, repr=False, compare=False)


class StandaloneStep(Step, Action):
    """A step that is an action by itself: one request that needs no guard around it."""

    __slots__ = ()

    @classmethod
    def inspect(cls, actions: Sequence[Self], reads: Reads) -> Sequence[StepSeen]:
        """Return what each step finds and wants."""
        intents = read_all((action.subject, partial(action.intend, reads.world)) for action in actions)
        locks = cls.find_locks(actions, reads)
        return [StepSeen(intent, lock) for intent, lock in zip(intents, locks, strict=True)]

    @classmethod
    @abstractmethod
    def find_locks(cls, actions: Sequence[Self], reads: Reads) -> Sequence[frozenset[str]]:
        """Return the locks that each step needs."""

    def find_rights(self) -> frozenset[Right]:
        """Return the rights that the step needs of the brokers."""
        return frozenset()

    def find_configs(self) -> tuple[ConfigWrite, ...]:
        """Return the connector configs that the step writes."""
        return ()

    def needs(self, seen: StepSeen) -> Needs:
        """Return the locks of the subject, and the step's rights and configs."""
        return Needs(seen.locks, self.find_rights(), self.find_configs())

    def steps(self, seen: StepSeen) -> StepSequence:
        """Return the step itself, unless it has nothing to do."""
        return () if is_met(seen.intent) else in_turn(self)

    def effects(self, seen: StepSeen) -> tuple[Effect, ...]:
        """Return the line of the step."""
        return () if is_met(seen.intent) else (self.build_effect(seen),)

    def find_intents(self, seen: StepSeen) -> Mapping[str, Intent]:
        """Return what the step found."""
        return {f"{self.subject}#{self.aspect}": seen.intent}

    def notes(self, seen: StepSeen) -> tuple[str, ...]:
        """Say what can't be undone. Where nothing is there yet, what is created can be deleted again."""
        if is_met(seen.intent) or seen.intent.before is None:
            return ()
        back = self.undo(seen.intent)
        return (f"can't be undone: {self.describe()}: {back.because}",) if isinstance(back, CanNotUndo) else ()

    @abstractmethod
    def build_effect(self, seen: StepSeen) -> Effect:
        """Return the line that shows people what the step does."""

    def build_undo(self, past: ActionHistory) -> Action | CanNotUndo | None:
        """Return the step that takes this one back."""
        (only,) = past.steps
        back = None if only.intent is None else self.undo(only.intent)
        if back is None or isinstance(back, CanNotUndo | Action):
            return back
        raise TypeError(f"{type(back).__name__} is not an action by itself")


def _find_default(one: Field[Any]) -> Any:
    return one.default_factory() if one.default_factory is not MISSING else one.default


def is_met(intent: Intent) -> bool:
    """Return whether a step has nothing to do."""
    return bool(intent.before == intent.after)


def action_kind(kind: str) -> Callable[[A], A]:
    """Register an action under the name that plan files and the journal hold."""

    def register(cls: A) -> A:
        if "permissions" not in vars(cls):
            raise TypeError(f"{cls.__name__} declares no permission: use @needs_permission")
        if _KINDS.setdefault(kind, cls) is not cls:
            raise ValueError(f"two actions are called {kind!r}")
        cls.kind = kind
        return cls

    return register


def build_action(data: Mapping[str, Any]) -> Action:
    """Return the action that a plan's data describe.

    Raises:
        UsageError: this seamark doesn't know the kind.
        ValueError: a field is unknown, missing or of another type.
    """
    kind = data["action"]
    found = _KINDS.get(kind)
    if found is None:
        raise UsageError(
            f"this seamark doesn't know the action {kind!r}", hint="apply the plan with the version that created it"
        )
    return decode_fields(found, {key: value for key, value in data.items() if key != "action"})


def build_step_data(sequence: StepSequence, *, lane: str) -> tuple[StepData, ...]:
    """Return derived steps as the journal holds them."""
    return tuple(
        replace(
            step.to_data(lane=lane, always=when is When.ALWAYS),
            fallback=when is When.FALLBACK,
            insists=when is When.INSISTS,
        )
        for step, when in sequence
    )


T = TypeVar("T")

# What is read before a request is sent counts as time of the act; as long as `ChangeTiming.begin_seconds`, which knows.
_READ_SECONDS = 5.0


def read_within_deadline(world: Environment, subject: str, read: Callable[[], T]) -> T:
    """What `read` gives. Where that took too long, nobody may act on it any more."""
    began_at = world.clock.now()
    found = read()
    if world.clock.now() - began_at > _READ_SECONDS:
        raise DeadlineError(f"looking at {subject} once more took too long; nothing was sent")
    return found


class CheckStep(Step):
    """A step that checks or waits, and leaves nothing to undo. It has an intent only where it `writes`."""

    __slots__ = ()
    drifts: ClassVar[bool] = True
    acts: ClassVar[bool] = False

    def intend(self, world: Environment) -> Intent:
        """Return an empty intent."""
        del world
        return Intent(before=None, after=None)

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        """Return None: there is nothing to undo."""
        del intent
        return None
