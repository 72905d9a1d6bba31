"""Actions: the elements of a plan.

An action describes what a plan does to one resource. It is one line of text, one object in JSON, one step sequence and
one unit of undo. The action contains everything that is written. Everything else (effects, locks, rights, guards,
steps) is derived from the action and from what `inspect` reads, and is never read from a file: editing a plan file can
change what a plan does, which its text then shows, but can't remove a guard.
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
from seamark.changes.step import CanNotUndo, ConnectorSubject, Intent, Observed, Outcome, Step, StepData
from seamark.core.readings import read_all
from seamark.core.refs import ConnectorType, Port
from seamark.core.secrets import is_reference
from seamark.errors import DeadlineError, SeamarkError, UsageError
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
    """When a step of a sequence runs. TURN: after the previous step succeeded."""

    TURN = "turn"
    # Even after an earlier failure, such as restoring a connector's state.
    ALWAYS = "always"
    # Only after a definite failure in a sequence that had changed something: roll back to the previous state.
    FALLBACK = "fallback"
    # Can't be rolled back: if it fails, the change stays open, and a resume retries it.
    INSISTS = "insists"


StepSequence = tuple[tuple[Step, When], ...]
"""The steps of one action, in order. A failure in one sequence doesn't affect the others."""


def in_turn(*steps: Step) -> StepSequence:
    """Return a sequence whose steps run one after the other, until one fails."""
    return tuple((step, When.TURN) for step in steps)


class LockNames(Protocol):
    """Names the locks of a Connect cluster's resources. Connect clusters are given by their name in the context."""

    def find_connector(
        self, cluster: str, name: str, configs: Sequence[Mapping[str, str]], *, kind: ConnectorType
    ) -> frozenset[str]:
        """Return the locks of a connector, for all configs that it has or will have."""
        ...

    def find_cluster(self, cluster: str) -> str:
        """Return the lock of a whole Connect cluster."""
        ...

    def find_loggers(self, cluster: str) -> str:
        """Return the lock of the log levels of a Connect cluster's workers."""
        ...

    def find_labels(self, cluster: str, name: str) -> str:
        """Return the lock of a connector's labels."""
        ...

    def find_groups(self, groups: Sequence[str]) -> Sequence[frozenset[str]]:
        """Return the locks of consumer groups; the lock of a sink's group includes its Connect cluster."""
        ...


LOCKS: Port[LockNames] = Port("locks")


class Reads:
    """The reads that `inspect` may use. Answers may be cached for the plan being built; a step never gets a `Reads`."""

    def __init__(self, world: Environment, ports: Mapping[Port[Any], Any] | None = None) -> None:
        self.world = world
        self._ports = dict(ports or {})

    def use(self, port: Port[P]) -> P:
        """Return the capability that is registered under a key.

        Raises:
            KeyError: none is registered.
        """
        found: P = self._ports[port]
        return found

    def having(self, port: Port[Any], capability: object) -> Reads:
        """Return the same capabilities, with another one under a key, such as one that caches its answers."""
        return Reads(self.world, {**self._ports, port: capability})

    def over(self, world: Environment) -> Reads:
        """Return the same capabilities over another environment, such as a snapshot."""
        return Reads(world, self._ports)


@dataclass(frozen=True, slots=True)
class ConfigWrite(ConnectorSubject):
    """A connector config that an action writes, for the policy and for the plugin's validation.

    `config` is the config with references; the values of the keys `keep` stay as Connect has them. The plugin validates
    the config only if `is_validated`: not if the connector had that config before.
    """

    config: Mapping[str, str] = field(repr=False)
    keep: tuple[str, ...] = ()
    is_validated: bool = True


@dataclass(frozen=True, slots=True)
class NewName:
    """The name of a connector that an action creates; unless `is_certain`, only if that connector doesn't exist yet."""

    cluster: str
    name: str
    is_certain: bool = True


@dataclass(frozen=True, slots=True)
class Needs:
    """What an action needs before it may run: locks, ACLs of the brokers, configs that the policy allows.

    If several actions of a plan name the same `wide_lock`, that lock replaces their `locks`: a change of a thousand
    connectors takes the lock of their Connect cluster.
    """

    locks: frozenset[str] = frozenset()
    rights: frozenset[Right] = frozenset()
    configs: tuple[ConfigWrite, ...] = ()
    wide_lock: str = ""


@dataclass(frozen=True, slots=True)
class PastStep:
    """A step of a past change, as recorded in the journal."""

    step: Step
    intent: Intent | None
    outcome: Outcome | None

    @property
    def may_have_acted(self) -> bool:
        """Whether the step did something, or may have."""
        return self.intent is not None and self.outcome in (Outcome.DONE, Outcome.UNKNOWN)

    @property
    def is_good(self) -> bool:
        """Whether the step is known to have succeeded, or to have found its target state."""
        return self.outcome in GOOD


@dataclass(frozen=True, slots=True)
class ActionHistory:
    """The history of one action: its steps in order, with the intent and outcome of each."""

    steps: tuple[PastStep, ...]

    def find_all(self, kind: type[Step]) -> tuple[PastStep, ...]:
        """Return the steps of that class that may have acted, in order."""
        return tuple(one for one in self.steps if type(one.step) is kind and one.may_have_acted)

    def find(self, kind: type[Step]) -> PastStep | None:
        """Return the last step of that class that may have acted; None if there is none."""
        found = self.find_all(kind)
        return found[-1] if found else None

    def undo_all(self, kind: type[Step], back: type[S]) -> tuple[S, ...]:
        """Return the steps of class `back` that undo the steps of class `kind`, the last one first."""
        undone = (one.step.undo(one.intent) for one in reversed(self.find_all(kind)) if one.intent is not None)
        return tuple(step for step in undone if isinstance(step, back))

    def undo_last(self, kind: type[Step], back: type[S]) -> S | None:
        """Return the step of class `back` that undoes the last step of class `kind`."""
        found = self.undo_all(kind, back)
        return found[0] if found else None

    def find_refusal(self) -> CanNotUndo | None:
        """Return which steps that may have acted can't be undone, and why; None if all can."""
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
    # Whether an undo skips a resource that is already in the wanted state, such as a rewound source that has caught up.
    # For other actions this means that another operator has changed the resource since, and the undo is out of date.
    reaches_by_itself: ClassVar[bool] = False
    # The fields that `effects` shows in full; the complete text of a plan lists the others (`find_settings`).
    shown: ClassVar[frozenset[str]] = frozenset({"cluster", "name"})

    @property
    @abstractmethod
    def subject(self) -> str:
        """The resource, as users write it: `connector/game/log-purchase`."""

    def find_permissions(self) -> frozenset[Permission]:
        """Return what a role must allow for this action."""
        return self.permissions

    @property
    def sequence(self) -> str:
        """The name of the step sequence. Actions with the same name share one sequence."""
        return self.subject

    @classmethod
    def inspect(cls, actions: Sequence[Self], reads: Reads) -> Sequence[Any]:
        """Read the state that all of these actions need: one answer per action.

        By default, `read` reads each of them. A class that can read many actions with few calls overrides `inspect`.

        Raises:
            RefusedError: one of them must not be done.
        """
        return read_all((action.subject, partial(action.read, reads)) for action in actions)

    def read(self, reads: Reads) -> Any:
        """Read the state that this action needs."""
        raise NotImplementedError

    @abstractmethod
    def steps(self, seen: Any) -> StepSequence:
        """Return the steps, including guards; none if there is nothing to do."""

    @abstractmethod
    def needs(self, seen: Any) -> Needs:
        """Return the locks and permissions that are required before the steps run."""

    @abstractmethod
    def effects(self, seen: Any) -> tuple[Effect, ...]:
        """Return the lines that describe what the action does."""

    def notes(self, seen: Any) -> tuple[str, ...]:
        """Return notes that the reader of the plan needs in addition to its lines."""
        del seen
        return ()

    def undo_notes(self, seen: Any) -> tuple[str, ...]:
        """Return such notes for an action that undoes a change."""
        del seen
        return ()

    def find_new_names(self) -> tuple[NewName, ...]:
        """Return the connectors that the action may create; the policy checks their names before any request."""
        return ()

    def find_new_labels(self) -> Mapping[str, str] | None:
        """Return the labels that a connector gets, None if they don't change. A role must match them, too."""
        return None

    def find_intents(self, seen: Any) -> Mapping[str, Intent]:
        """Return the intents that `inspect` already knows, by `SUBJECT#ASPECT`, so that they need no second read."""
        del seen
        return {}

    @abstractmethod
    def build_undo(self, past: ActionHistory) -> Action | CanNotUndo | None:
        """Return the action that undoes this one; None if there is nothing to undo."""

    def find_pace(self) -> int:
        """Return how many step sequences may run at once in a plan with this action; 0 for no limit.

        With a limit, no other sequence begins after the first failure.
        """
        return 0

    def find_settings(self) -> dict[str, Any]:
        """Return the fields that `effects` doesn't show and that aren't at their defaults, as JSON without secrets.

        A field that is added to an action is listed until its class declares that `effects` shows it. For a config that
        `effects` shows, references to secrets are listed, because a line only shows that the secret changes.
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
        """Return the action as plan files and the journal store it: without secrets."""
        return {"action": self.kind, **encode_fields(self)}


@dataclass(frozen=True, slots=True)
class StepSeen:
    """What a standalone step finds, and the locks of its subject.

    `tasks` is the number of its tasks that run now. `read_leftovers` reads what remains after the step deletes its
    subject.
    """

    intent: Intent
    locks: frozenset[str] = frozenset()
    tasks: int = 0
    read_leftovers: Callable[[], tuple[str, ...]] = field(default=tuple, repr=False, compare=False)


class StandaloneStep(Step, Action):
    """A step that is also an action: one request that needs no guards."""

    __slots__ = ()

    @classmethod
    def inspect(cls, actions: Sequence[Self], reads: Reads) -> Sequence[StepSeen]:
        """Return the intent and the locks of each step."""
        intents = read_all((action.subject, partial(action.intend, reads.world)) for action in actions)
        locks = cls.find_locks(actions, reads)
        return [StepSeen(intent, lock) for intent, lock in zip(intents, locks, strict=True)]

    @classmethod
    @abstractmethod
    def find_locks(cls, actions: Sequence[Self], reads: Reads) -> Sequence[frozenset[str]]:
        """Return the locks that each step needs."""

    def find_rights(self) -> frozenset[Right]:
        """Return the ACLs that the step needs on the brokers."""
        return frozenset()

    def find_configs(self) -> tuple[ConfigWrite, ...]:
        """Return the connector configs that the step writes."""
        return ()

    def needs(self, seen: StepSeen) -> Needs:
        """Return the locks of the subject, and the step's ACLs and configs."""
        return Needs(seen.locks, self.find_rights(), self.find_configs())

    def steps(self, seen: StepSeen) -> StepSequence:
        """Return the step itself, unless it has nothing to do."""
        return () if is_met(seen.intent) else in_turn(self)

    def effects(self, seen: StepSeen) -> tuple[Effect, ...]:
        """Return the line of the step, unless it has nothing to do."""
        return () if is_met(seen.intent) else (self.build_effect(seen),)

    def find_intents(self, seen: StepSeen) -> Mapping[str, Intent]:
        """Return the intent of the step."""
        return {f"{self.subject}#{self.aspect}": seen.intent}

    def notes(self, seen: StepSeen) -> tuple[str, ...]:
        """Return a note if the step can't be undone. A created resource can be deleted again, so it needs no note."""
        if is_met(seen.intent) or seen.intent.before is None:
            return ()
        back = self.undo(seen.intent)
        return (f"can't be undone: {self.describe()}: {back.because}",) if isinstance(back, CanNotUndo) else ()

    @abstractmethod
    def build_effect(self, seen: StepSeen) -> Effect:
        """Build the line that describes what the step does."""

    def build_undo(self, past: ActionHistory) -> Action | CanNotUndo | None:
        """Return the step that undoes this one."""
        (only,) = past.steps
        back = None if only.intent is None else self.undo(only.intent)
        if back is None or isinstance(back, CanNotUndo | Action):
            return back
        raise TypeError(f"{type(back).__name__} is not an action")


def _find_default(one: Field[Any]) -> Any:
    return one.default_factory() if one.default_factory is not MISSING else one.default


def is_met(intent: Intent) -> bool:
    """Return whether a step has nothing to do."""
    return bool(intent.before == intent.after)


def action_kind(kind: str) -> Callable[[A], A]:
    """Register an action under the name that plan files and the journal use."""

    def register(cls: A) -> A:
        if "permissions" not in vars(cls):
            raise TypeError(f"{cls.__name__} declares no permission: use @needs_permission")
        if _KINDS.setdefault(kind, cls) is not cls:
            raise ValueError(f"two actions are called {kind!r}")
        cls.kind = kind
        return cls

    return register


def list_action_kinds() -> tuple[str, ...]:
    """Return the registered kinds; `seamark.fleet.kinds` registers all of them."""
    return tuple(_KINDS)


def build_action(data: Mapping[str, Any]) -> Action:
    """Build the action that a plan's data describe.

    Raises:
        UsageError: this seamark doesn't know the kind.
        ValueError: a field is unknown, missing or of another type.
    """
    kind = data["action"]
    found = _KINDS.get(kind)
    if found is None:
        raise UsageError(
            f"unknown action {kind!r} in the plan", hint="apply the plan with the seamark version that created it"
        )
    return decode_fields(found, {key: value for key, value in data.items() if key != "action"})


def build_step_data(sequence: StepSequence, *, lane: str) -> tuple[StepData, ...]:
    """Return derived steps as the journal stores them."""
    return tuple(
        replace(
            step.to_data(lane=lane, always=when is When.ALWAYS),
            fallback=when is When.FALLBACK,
            insists=when is When.INSISTS,
        )
        for step, when in sequence
    )


T = TypeVar("T")

# Reads before a request count toward the step's time limit; equal to `ChangeTiming.begin_seconds`.
_READ_SECONDS = 5.0


def read_within_deadline(world: Environment, subject: str, read: Callable[[], T]) -> T:
    """Return the result of `read`; raise DeadlineError if it took too long to act on."""
    began_at = world.clock.now()
    found = read()
    if world.clock.now() - began_at > _READ_SECONDS:
        raise DeadlineError(f"checking {subject} before the request took too long; nothing was sent")
    return found


class CheckStep(Step):
    """A step that checks or waits, and leaves nothing to undo. It has an intent only if it `writes`."""

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


class GuardStep(CheckStep):
    """A check that is made once: it passes, or it refuses the steps after it."""

    __slots__ = ()

    @abstractmethod
    def find_refusal(self, world: Environment) -> SeamarkError | None:
        """Return why the steps after this one must not run; None if they may run."""

    def perform(self, world: Environment, intent: Intent) -> None:
        """Raise the refusal, if there is one."""
        del intent
        if refusal := self.find_refusal(world):
            raise refusal

    def observe(self, world: Environment, intent: Intent) -> Observed:
        """Return whether the check passes now."""
        del intent
        return Observed.BEFORE if self.find_refusal(world) else Observed.AFTER
