"""A connector comes, changes, and goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Self

from seamark.changes.action import ConfigWrite, NewName, Reads, StepSeen, action_kind, needs_permission
from seamark.changes.codec import Secret, Transient
from seamark.changes.comparison import SETTLE_SECONDS
from seamark.changes.effect import Effect, Sign
from seamark.changes.images import (
    build_config_image,
    find_references,
    find_sealed,
    find_typed,
    is_same_image,
    reveal_config,
)
from seamark.changes.step import CanNotUndo, Intent, Observed, Step, step_kind
from seamark.changes.world import World
from seamark.connect.ports import CONNECT
from seamark.connectors.config_image import compare_config, read_config_image, refuse_hidden
from seamark.connectors.connector_action import ConnectorAction, build_config_fields, say_tasks
from seamark.connectors.port import LEFTOVERS
from seamark.connectors.read import read_config, read_run_state, read_status
from seamark.errors import DeadlineError, RefusedError
from seamark.policy.permission import Permission
from seamark.report.words import render_count

# What is read before a request is sent counts as time of the act; as long as `ChangeTiming.begin_seconds`, which knows.
_READ_SECONDS = 5.0


@action_kind("create-connector")
@needs_permission(Permission.CHANGE_CONFIG)
@step_kind("create-connector")
@dataclass(frozen=True, slots=True)
class CreateConnector(ConnectorAction):
    """A connector that is not there yet is created. `secret` are keys that hold secrets, though their names don't say.

    The same field of the other steps of this module makes their images comparable.
    """

    aspect: ClassVar[str] = "config"
    declares: ClassVar[bool] = True
    settle_seconds: ClassVar[float] = SETTLE_SECONDS
    shown: ClassVar[frozenset[str]] = frozenset({"cluster", "name", "config"})

    config: Annotated[Mapping[str, str], Secret()] = field(repr=False)
    state: str = "RUNNING"
    secret: tuple[str, ...] = ()

    def describe(self) -> str:
        start = "and start it" if self.state == "RUNNING" else f"as {self.state}"
        return f"create {self.subject} {start}"

    def list_configs(self) -> tuple[Mapping[str, str], ...]:
        return (self.config,)

    def find_configs(self) -> tuple[ConfigWrite, ...]:
        return (ConfigWrite(self.cluster, self.name, self.config),)

    def find_new_names(self) -> tuple[NewName, ...]:
        return (NewName(self.cluster, self.name),)

    def build_effect(self, seen: StepSeen) -> Effect:
        return Effect(Sign.CREATE, self.subject, f"create, {self.state}", build_config_fields(seen.intent))

    def intend(self, world: World) -> Intent:
        refuse_hidden(self.config, self.subject)
        revealed = reveal_config(self.config, world)
        image = build_config_image(revealed, world, cluster=self.cluster, secret=self._secret())
        return Intent(
            before=read_config_image(world, self.cluster, self.name, secret=self._secret()), after={"config": image}
        )

    def perform(self, world: World, intent: Intent) -> None:
        if intent.before is not None:
            raise RefusedError(
                f"{self.subject} is there already", hint="change it instead of creating it, or choose another name"
            )
        state = None if self.state == "RUNNING" else self.state
        world.use(CONNECT)(self.cluster).create_connector(
            self.name, reveal_config(self.config, world), initial_state=state
        )

    def observe(self, world: World, intent: Intent) -> Observed:
        image = read_config_image(world, self.cluster, self.name, secret=self._secret())
        seen = compare_config(image, intent, world)
        if seen is not Observed.AFTER:
            return seen
        # Until the status is there, nobody could tell what state a step after this one finds.
        return Observed.BETWEEN if read_status(world, self.cluster, self.name) is None else Observed.AFTER

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        return DeleteConnector(self.cluster, self.name, secret=find_sealed(intent.after["config"]))

    def _secret(self) -> tuple[str, ...]:
        return self.secret + find_references(self.config)


@action_kind("put-config")
@needs_permission(Permission.CHANGE_CONFIG)
@step_kind("put-config")
@dataclass(frozen=True, slots=True)
class PutConfig(ConnectorAction):
    """A connector's config is replaced. The values of `keep` stay as Connect holds them.

    `hidden` are keys of the config whose literal values no plan may hold, though neither their names nor their looks
    say so: what was given as a reference before.
    """

    aspect: ClassVar[str] = "config"
    declares: ClassVar[bool] = True
    settle_seconds: ClassVar[float] = SETTLE_SECONDS
    shown: ClassVar[frozenset[str]] = frozenset({"cluster", "name", "config"})

    config: Annotated[Mapping[str, str], Secret(hidden="hidden")] = field(repr=False)
    keep: tuple[str, ...] = ()
    secret: tuple[str, ...] = ()
    # A plan doesn't hold it: there, the values are masked already.
    hidden: Annotated[tuple[str, ...], Transient()] = ()

    def describe(self) -> str:
        return f"change the config of {self.subject}, which restarts it"

    def list_configs(self) -> tuple[Mapping[str, str], ...]:
        return (self.config,)

    def find_configs(self) -> tuple[ConfigWrite, ...]:
        return (ConfigWrite(self.cluster, self.name, self.config, self.keep),)

    def build_effect(self, seen: StepSeen) -> Effect:
        words = f"restarts {render_count(seen.tasks, 'task')}" if seen.tasks else "no task runs now"
        return Effect(Sign.CHANGE, self.subject, words, build_config_fields(seen.intent), tasks=seen.tasks)

    def intend(self, world: World) -> Intent:
        refuse_hidden(self.config, self.subject)
        present, revealed = read_config(world, self.cluster, self.name), reveal_config(self.config, world)
        secret = find_typed(world, self.cluster, present, revealed).union(self._secret())
        after = build_config_image(revealed, world, cluster=self.cluster, secret=secret)
        if present is None:
            return Intent(before=None, after={"config": after})
        before = build_config_image(present, world, cluster=self.cluster, secret=secret)
        return Intent(before={"config": before}, after={"config": after | self._find_kept(before)})

    def perform(self, world: World, intent: Intent) -> None:
        if intent.before is None:
            raise RefusedError(f"{self.subject} is not there", hint="seamark connectors list shows what is there")
        config = reveal_config(self.config, world)
        if self.keep:
            config |= self._read_kept(world, intent)
        world.use(CONNECT)(self.cluster).put_config(self.name, config)

    def observe(self, world: World, intent: Intent) -> Observed:
        return compare_config(read_config_image(world, self.cluster, self.name, secret=self._secret()), intent, world)

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        if intent.before is None:
            return None
        before: Mapping[str, Any] = intent.before["config"]
        after: Mapping[str, Any] = intent.after["config"]
        sealed = find_sealed(before)
        if lost := [key for key in sealed if after.get(key) != before[key]]:
            return CanNotUndo(f"the former value of {', '.join(lost)} is a secret, and the journal holds no secrets")
        config = {key: value for key, value in before.items() if key not in sealed}
        return PutConfig(self.cluster, self.name, config, keep=sealed, secret=find_sealed(after))

    def _secret(self) -> tuple[str, ...]:
        return self.secret + self.keep + self.hidden + find_references(self.config)

    def _find_kept(self, image: Mapping[str, Any]) -> dict[str, Any]:
        if lost := sorted(key for key in self.keep if key not in image):
            raise RefusedError(
                f"{self.subject} has no {', '.join(lost)} any more, and the plan keeps what Connect holds",
                hint="make the plan anew, with the values",
            )
        return {key: image[key] for key in self.keep}

    def _read_kept(self, world: World, intent: Intent) -> dict[str, str]:
        """The kept values, in clear. The journal does not hold them, so they are read at the last moment."""
        began_at = world.clock.now()
        present = world.use(CONNECT)(self.cluster).read_config(self.name)
        held = {key: value for key, value in present.items() if key != "name"}
        image = build_config_image(held, world, cluster=self.cluster, secret=self._secret())
        if not is_same_image(image, intent.before["config"], world):
            raise RefusedError(f"{self.subject} was changed a moment ago by somebody else; nothing was sent")
        if world.clock.now() - began_at > _READ_SECONDS:
            raise DeadlineError(f"reading the config of {self.subject} took too long; nothing was sent")
        return {key: present[key] for key in self.keep}


@action_kind("delete-connector")
@needs_permission(Permission.DELETE)
@step_kind("delete-connector")
@dataclass(frozen=True, slots=True)
class DeleteConnector(ConnectorAction):
    """A connector is deleted. Its offsets or its group stay behind; Connect never removes them."""

    aspect: ClassVar[str] = "config"
    declares: ClassVar[bool] = True
    settle_seconds: ClassVar[float] = SETTLE_SECONDS

    secret: tuple[str, ...] = ()

    def describe(self) -> str:
        return f"delete {self.subject}; its positions stay behind"

    @classmethod
    def inspect(cls, actions: Sequence[Self], reads: Reads) -> Sequence[StepSeen]:
        read = reads.use(LEFTOVERS)
        return [
            replace(seen, read_leftovers=partial(read, action.cluster, action.name))
            for action, seen in zip(actions, super(DeleteConnector, cls).inspect(actions, reads), strict=True)
        ]

    def undo_notes(self, seen: StepSeen) -> tuple[str, ...]:
        return seen.read_leftovers()

    def build_effect(self, seen: StepSeen) -> Effect:
        return Effect(Sign.DELETE, self.subject, f"delete: {say_tasks(seen.tasks, 'ends', 'end')}")

    def intend(self, world: World) -> Intent:
        before = read_config_image(world, self.cluster, self.name, secret=self.secret)
        if before is None:
            return Intent(before=None, after=None)
        state = read_run_state(world, self.cluster, self.name) or "RUNNING"
        return Intent(before=before, after=None, extra={"state": state})

    def perform(self, world: World, intent: Intent) -> None:
        del intent
        world.use(CONNECT)(self.cluster).delete_connector(self.name)

    def observe(self, world: World, intent: Intent) -> Observed:
        seen = compare_config(read_config_image(world, self.cluster, self.name, secret=self.secret), intent, world)
        if seen is Observed.AFTER and read_status(world, self.cluster, self.name) is not None:
            # The status outlives the config for a moment; a create in that moment would mix old and new tasks.
            return Observed.BETWEEN
        return seen

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        if intent.before is None:
            return None
        config: Mapping[str, Any] = intent.before["config"]
        if lost := find_sealed(config):
            return CanNotUndo(f"the value of {', '.join(lost)} was a secret, and the journal holds no secrets")
        return CreateConnector(self.cluster, self.name, dict(config), state=intent.extra["state"])
