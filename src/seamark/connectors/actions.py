"""The action that changes one connector to what a spec declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, ClassVar

from seamark.changes.action import (
    LOCKS,
    Action,
    ActionHistory,
    ConfigWrite,
    Needs,
    NewName,
    Reads,
    StepSequence,
    When,
    action_kind,
    in_turn,
    is_met,
    needs_permission,
)
from seamark.changes.codec import SecretConfig
from seamark.changes.effect import ChangeKind, Effect
from seamark.changes.images import find_references, find_typed, reveal_config, split_secrets
from seamark.changes.step import CanNotUndo, ConnectorSubject, Intent, Step
from seamark.connect.model import Connector, State
from seamark.connectors.run_state import AwaitRunning, is_running
from seamark.connectors.steps import (
    LEFTOVERS,
    CreateConnector,
    DeleteConnector,
    PutConfig,
    build_config_fields,
    find_connector,
    find_locks,
    say_tasks,
)
from seamark.policy.permissions import Permission
from seamark.report.words import render_count

RUNNING = "RUNNING"
_AT_REST = frozenset({State.PAUSED, State.STOPPED})


@dataclass(frozen=True, slots=True)
class ConnectorSeen:
    """The current connector, what the first step expects, and the config with its references resolved."""

    present: Connector | None = field(repr=False)
    intent: Intent = field(repr=False)
    locks: frozenset[str]
    cluster_lock: str
    revealed: Mapping[str, str] = field(default_factory=dict, repr=False)
    typed: frozenset[str] = frozenset()
    read_leftovers: Callable[[], tuple[str, ...]] = field(default=tuple, repr=False, compare=False)

    @property
    def tasks(self) -> int:
        """Return the number of tasks that run now."""
        status = self.present.status if self.present else None
        return len(status.tasks) if status else 0


@action_kind("apply-connector")
@needs_permission(Permission.CHANGE_CONFIG)
@dataclass(frozen=True, slots=True)
class ApplyConnector(ConnectorSubject, Action):
    """Create a connector, replace its config, or delete it if `config` is None.

    The values of the keys `keep` stay as Connect has them. `secret` are keys that contain secrets although their names
    don't indicate it. `state` is the initial state of a new connector. If the connector should run, the action waits
    for it, up to `wait_seconds`; if it ran before and does not run then, its previous config is restored. Without
    `wait_seconds` there is no wait.
    """

    shown: ClassVar[frozenset[str]] = frozenset({"cluster", "name", "config"})

    config: Annotated[Mapping[str, str] | None, SecretConfig()] = field(repr=False)
    keep: tuple[str, ...] = ()
    secret: tuple[str, ...] = ()
    state: str = RUNNING
    wait_seconds: float = 0.0
    stable_seconds: float = 0.0

    def find_permissions(self) -> frozenset[Permission]:
        """Return what a role must allow: deleting a connector is another permission than changing its config."""
        return frozenset({Permission.DELETE}) if self.config is None else self.permissions

    def read(self, reads: Reads) -> ConnectorSeen:
        """Read the current connector."""
        return self.see(reads, find_connector(reads, self.cluster, self.name))

    def see(self, reads: Reads, present: Connector | None) -> ConnectorSeen:
        """Return what the action needs to know; `present` is the connector that was read, None if there is none."""
        configs = [] if self.config is None else [self.config]
        revealed = {} if self.config is None else reveal_config(self.config, reads.world)
        return ConnectorSeen(
            present,
            self.build_first(present).intend(reads.world),
            find_locks(reads, self.cluster, self.name, present, configs),
            reads.use(LOCKS).find_cluster(self.cluster),
            revealed,
            find_typed(reads.world, self.cluster, None if present is None else present.config, revealed or None),
            partial(reads.use(LEFTOVERS), self.cluster, self.name) if self.config is None else tuple,
        )

    def build_first(self, present: Connector | None) -> Step:
        """Return the step that changes the config; the other steps expect its result."""
        if self.config is None:
            return DeleteConnector(self.cluster, self.name, secret=self.secret)
        if present is None:
            return CreateConnector(self.cluster, self.name, dict(self.config), state=self.state, secret=self.secret)
        return PutConfig(self.cluster, self.name, self.config, keep=self.keep, secret=self.secret)

    def steps(self, seen: ConnectorSeen) -> StepSequence:
        """Return the steps: change the config, wait until the connector runs, else restore the previous config."""
        if is_met(seen.intent):
            return ()
        first = self.build_first(seen.present)
        wait = AwaitRunning(
            self.cluster, self.name, deadline_seconds=self.wait_seconds, stable_seconds=self.stable_seconds
        )
        if self.config is None or not self.wait_seconds:
            return in_turn(first)
        if seen.present is None:
            return in_turn(first, wait) if self.state == RUNNING else in_turn(first)
        status = seen.present.status
        if status is None or status.state in _AT_REST:
            return in_turn(first)
        if not is_running(status):
            # A config that did not run before is not restored.
            return in_turn(first, wait)
        back = self._build_back(seen.present, seen)
        return (*in_turn(first, wait), (back, When.FALLBACK), (wait, When.FALLBACK))

    def _build_back(self, present: Connector, seen: ConnectorSeen) -> PutConfig:
        held = {key: value for key, value in present.config.items() if key != "name"}
        shown, kept = split_secrets(held, seen.revealed or self.config or {}, seen.typed)
        # If the config has a reference, the value that Connect has may be a secret as well.
        secret = (*self.secret, *find_references(self.config or {}), *sorted(seen.typed.intersection(shown)))
        back = PutConfig(self.cluster, self.name, shown, keep=kept, secret=secret)
        return replace(back, hidden=tuple(key for key in secret if key in shown))

    def needs(self, seen: ConnectorSeen) -> Needs:
        """Return the connector's locks, or its Connect cluster's if several change, and the configs for the policy."""
        configs = () if self.config is None else (ConfigWrite(self.cluster, self.name, self.config, self.keep),)
        return Needs(seen.locks, configs=configs, wide_lock=seen.cluster_lock)

    def effects(self, seen: ConnectorSeen) -> tuple[Effect, ...]:
        """Return one line for the connector."""
        if is_met(seen.intent):
            return ()
        fields = build_config_fields(seen.intent)
        if self.config is None:
            return (Effect(ChangeKind.DELETE, self.subject, f"delete: {say_tasks(seen.tasks, 'ends', 'end')}"),)
        if seen.present is None:
            return (Effect(ChangeKind.CREATE, self.subject, f"create, {self.state}", fields),)
        words = f"restarts {render_count(seen.tasks, 'task')}" if seen.tasks else "no task runs now"
        return (Effect(ChangeKind.CHANGE, self.subject, words, fields, tasks=seen.tasks),)

    def undo_notes(self, seen: ConnectorSeen) -> tuple[str, ...]:
        """Return notes on what remains if the connector is deleted."""
        return seen.read_leftovers()

    def find_intents(self, seen: ConnectorSeen) -> Mapping[str, Intent]:
        """Return the expected values of the first step."""
        first = self.build_first(seen.present)
        return {f"{first.subject}#{first.aspect}": seen.intent}

    def find_new_names(self) -> tuple[NewName, ...]:
        """Return the connector, if none of that name exists."""
        return () if self.config is None else (NewName(self.cluster, self.name, is_certain=False),)

    def find_obstacle(self, seen: ConnectorSeen) -> str:
        """Return why the change of an existing connector could not be undone; "" if it could."""
        if seen.intent.before is None:
            return ""
        back = self.build_first(seen.present).undo(seen.intent)
        return back.because if isinstance(back, CanNotUndo) else ""

    def build_undo(self, past: ActionHistory) -> Action | CanNotUndo | None:
        """Return the action that restores the previous config."""
        acted = [one for one in past.steps if one.may_have_acted and one.intent is not None]
        first = acted[0]
        back = None if first.intent is None else first.step.undo(first.intent)
        if back is None or isinstance(back, CanNotUndo):
            return back
        return _from_step(back)


def _from_step(step: Step) -> ApplyConnector:
    if isinstance(step, DeleteConnector):
        return ApplyConnector(step.cluster, step.name, None, secret=step.secret)
    if isinstance(step, CreateConnector):
        return ApplyConnector(step.cluster, step.name, step.config, secret=step.secret, state=step.state)
    if isinstance(step, PutConfig):
        return ApplyConnector(step.cluster, step.name, step.config, keep=step.keep, secret=step.secret)
    raise TypeError(f"{type(step).__name__} doesn't restore a connector")
