"""Steps that create, change and delete a connector."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Self

from seamark.changes.action import (
    LOCKS,
    ConfigWrite,
    NewName,
    Reads,
    StandaloneStep,
    StepSeen,
    action_kind,
    needs_permission,
    read_within_deadline,
)
from seamark.changes.codec import SecretConfig, Transient
from seamark.changes.effect import ChangeKind, Effect, FieldChange
from seamark.changes.environment import Environment
from seamark.changes.images import (
    build_config_image,
    find_references,
    find_sealed,
    find_typed,
    is_same_image,
    is_sealed,
    reveal_config,
)
from seamark.changes.step import SETTLE_SECONDS, CanNotUndo, ConnectorSubject, Intent, Observed, Step, step_kind
from seamark.connect.api import CONNECT
from seamark.connect.model import Connector
from seamark.connectors.read import (
    compare_config,
    read_config,
    read_config_image,
    read_run_state,
    read_status,
    refuse_hidden,
)
from seamark.core.readings import read_all
from seamark.core.refs import ConnectorType, Port
from seamark.core.secrets import MASK, is_sensitive, mask_value
from seamark.errors import DeadlineError, NotFoundError, RefusedError
from seamark.policy.permissions import Permission
from seamark.report.words import render_count


@dataclass(frozen=True, slots=True)
class EditConfig(ConnectorSubject, Step):
    """The common part of steps that change some keys. None removes a key.

    The connector should be stopped: from 3.9 on Connect restarts tasks even for a key that is not theirs, earlier
    versions don't.
    """

    aspect: ClassVar[str] = "config"
    settle_seconds: ClassVar[float] = SETTLE_SECONDS

    values: Mapping[str, str | None]

    def intend(self, world: Environment) -> Intent:
        self.refuse_keys()
        before = read_config_image(world, self.cluster, self.name, secret=())
        if before is not None:
            self._check_types(world, before["config"])
        return Intent(before=before, after=None if before is None else {"config": self._merge(before["config"])})

    def perform(self, world: Environment, intent: Intent) -> None:
        config = read_within_deadline(world, self.subject, lambda: read_config(world, self.cluster, self.name))
        if config is None:
            raise RefusedError(f"{self.subject} doesn't exist", hint="list the connectors: seamark connectors list")
        # The journal contains no secrets, so the other keys are sent as they are read now; they must match the image.
        image = build_config_image(config, world, cluster=self.cluster)
        if intent.before is None or not is_same_image(image, intent.before["config"], world):
            raise RefusedError(f"another process has just changed {self.subject}; nothing was sent")
        world.use(CONNECT)(self.cluster).put_config(self.name, self._merge(config))

    def observe(self, world: Environment, intent: Intent) -> Observed:
        return compare_config(read_config_image(world, self.cluster, self.name, secret=()), intent, world)

    def refuse_keys(self) -> None:
        """Raise for keys that this step must not change."""

    def _check_types(self, world: Environment, image: Mapping[str, Any]) -> None:
        """Raise for keys that the connector's plugins type as PASSWORD: a step contains its values in clear text."""
        plain = {key: value for key, value in self._merge(image).items() if isinstance(value, str)}
        if secret := sorted(find_typed(world, self.cluster, plain).intersection(self.values)):
            raise RefusedError(
                f"can't change {', '.join(secret)} of {self.subject}; no changes were made",
                cause="their type is PASSWORD or unknown, and a plan contains no secrets",
                hint="change these keys with `seamark connectors update`",
            )

    def find_previous_values(self, intent: Intent) -> dict[str, str | None] | CanNotUndo:
        """Return the previous values of the keys, as far as the journal contains them."""
        before: Mapping[str, Any] = (intent.before or {}).get("config", {})
        previous = {key: before.get(key) for key in self.values}
        if lost := [key for key, value in previous.items() if is_sealed(value)]:
            return CanNotUndo(
                f"the previous value of {', '.join(lost)} is a secret, and the journal contains no secrets"
            )
        return previous

    def say_values(self) -> str:
        """Format the values."""
        return ", ".join(f"no {key}" if value is None else f"{key}={value}" for key, value in self.values.items())

    def _merge(self, config: Mapping[str, Any]) -> dict[str, Any]:
        merged = {**config, **self.values}
        return {key: value for key, value in merged.items() if value is not None}


LEFTOVERS: Port[Callable[[str, str], tuple[str, ...]]] = Port("leftovers")
"""Returns for a Connect cluster and a connector what remains when the connector is deleted."""

PLUGIN_TYPES: Port[Callable[[str, str], ConnectorType]] = Port("plugin types")
"""Returns for a Connect cluster and a plugin's class whether its connectors are sources or sinks."""


@dataclass(frozen=True, slots=True)
class ConnectorAction(ConnectorSubject, StandaloneStep):
    """A step on one connector."""

    @classmethod
    def inspect(cls, actions: Sequence[Self], reads: Reads) -> Sequence[StepSeen]:
        return read_all((action.subject, partial(action.see, reads)) for action in actions)

    @classmethod
    def find_locks(cls, actions: Sequence[Self], reads: Reads) -> Sequence[frozenset[str]]:
        return [
            find_locks(
                reads,
                action.cluster,
                action.name,
                find_connector(reads, action.cluster, action.name),
                action.list_configs(),
            )
            for action in actions
        ]

    def list_configs(self) -> tuple[Mapping[str, str], ...]:
        """Return the configs that the step writes: they may name other topics and groups."""
        return ()

    def see(self, reads: Reads) -> StepSeen:
        """Return what the step expects, the connector's locks and its tasks."""
        found = find_connector(reads, self.cluster, self.name)
        tasks = 0 if found is None or found.status is None else len(found.status.tasks)
        return StepSeen(
            self.intend(reads.world), find_locks(reads, self.cluster, self.name, found, self.list_configs()), tasks
        )


def find_locks(
    reads: Reads, cluster: str, name: str, present: Connector | None, written: Sequence[Mapping[str, str]]
) -> frozenset[str]:
    """Return the locks of a connector for its current config and those that are written."""
    configs = [*([] if present is None else [present.config]), *written]
    if present is not None:
        kind = present.type
    else:
        plugins = [config["connector.class"] for config in configs if "connector.class" in config]
        kind = reads.use(PLUGIN_TYPES)(cluster, plugins[0]) if plugins else ConnectorType.UNKNOWN
    return reads.use(LOCKS).find_connector(cluster, name, configs or [{}], kind=kind)


def find_connector(reads: Reads, cluster: str, name: str) -> Connector | None:
    """Return a connector with its status; None if it does not exist."""
    try:
        return reads.world.use(CONNECT)(cluster).read_connector(name)
    except NotFoundError:
        return None


def say_tasks(tasks: int, one: str, many: str) -> str:
    """Format what happens to running tasks: `3 tasks end`."""
    return f"{render_count(tasks, 'task')} {one if tasks == 1 else many}" if tasks else "no task runs now"


def build_config_fields(intent: Intent) -> tuple[FieldChange, ...]:
    """Return the keys of a config that change, with secrets masked."""
    before, after = _find_config(intent.before), _find_config(intent.after)
    changed = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    return tuple(
        FieldChange(
            key,
            before=show_value(key, before.get(key)),
            after=show_value(key, after.get(key)),
            is_sensitive=is_hidden(key, before.get(key)) or is_hidden(key, after.get(key)),
        )
        for key in changed
    )


def show_value(key: str, value: Any) -> str | None:
    """Format a value of an image for display; None if there is none."""
    if value is None:
        return None
    return MASK if is_sealed(value) else mask_value(key, str(value))


def is_hidden(key: str, value: Any) -> bool:
    """Return whether a value of an image must not be displayed."""
    return is_sealed(value) or (value is not None and is_sensitive(key) and mask_value(key, str(value)) == MASK)


def _find_config(image: Any) -> Mapping[str, Any]:
    found: Mapping[str, Any] = image["config"] if image else {}
    return found


# Reads before a request count toward the step's time; as long as `ChangeTiming.begin_seconds`, its definition.
_READ_SECONDS = 5.0


@action_kind("create-connector")
@needs_permission(Permission.CHANGE_CONFIG)
@step_kind("create-connector")
@dataclass(frozen=True, slots=True)
class CreateConnector(ConnectorAction):
    """Create a connector that does not exist yet. `secret` are keys with secrets that their names don't indicate.

    The same field of the other steps of this module makes their images comparable.
    """

    aspect: ClassVar[str] = "config"
    declares: ClassVar[bool] = True
    settle_seconds: ClassVar[float] = SETTLE_SECONDS
    shown: ClassVar[frozenset[str]] = frozenset({"cluster", "name", "config"})

    config: Annotated[Mapping[str, str], SecretConfig()] = field(repr=False)
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
        return Effect(ChangeKind.CREATE, self.subject, f"create, {self.state}", build_config_fields(seen.intent))

    def intend(self, world: Environment) -> Intent:
        refuse_hidden(self.config, self.subject)
        revealed = reveal_config(self.config, world)
        image = build_config_image(revealed, world, cluster=self.cluster, secret=self._secret())
        return Intent(
            before=read_config_image(world, self.cluster, self.name, secret=self._secret()), after={"config": image}
        )

    def perform(self, world: Environment, intent: Intent) -> None:
        if intent.before is not None:
            raise RefusedError(f"{self.subject} already exists", hint="update it instead, or choose another name")
        state = None if self.state == "RUNNING" else self.state
        world.use(CONNECT)(self.cluster).create_connector(
            self.name, reveal_config(self.config, world), initial_state=state
        )

    def observe(self, world: Environment, intent: Intent) -> Observed:
        image = read_config_image(world, self.cluster, self.name, secret=self._secret())
        seen = compare_config(image, intent, world)
        if seen is not Observed.AFTER:
            return seen
        # Until there is a status, the state that a later step expects is unknown.
        return Observed.BETWEEN if read_status(world, self.cluster, self.name) is None else Observed.AFTER

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        return DeleteConnector(self.cluster, self.name, secret=find_sealed(intent.after["config"]))

    def _secret(self) -> tuple[str, ...]:
        return self.secret + find_references(self.config)


@step_kind("put-config")
@dataclass(frozen=True, slots=True)
class PutConfig(ConnectorSubject, Step):
    """Replace a connector's config. The values of `keep` stay as Connect has them.

    `hidden` are keys of the config whose literal values no plan may contain, although neither their names nor their
    format indicate it: values that were references before.
    """

    aspect: ClassVar[str] = "config"
    declares: ClassVar[bool] = True
    settle_seconds: ClassVar[float] = SETTLE_SECONDS

    config: Annotated[Mapping[str, str], SecretConfig(hidden="hidden")] = field(repr=False)
    keep: tuple[str, ...] = ()
    secret: tuple[str, ...] = ()
    # Not stored in a plan, where the values are already masked.
    hidden: Annotated[tuple[str, ...], Transient()] = ()

    def describe(self) -> str:
        return f"change the config of {self.subject}, which restarts it"

    def intend(self, world: Environment) -> Intent:
        refuse_hidden(self.config, self.subject)
        present, revealed = read_config(world, self.cluster, self.name), reveal_config(self.config, world)
        secret = find_typed(world, self.cluster, present, revealed).union(self._secret())
        after = build_config_image(revealed, world, cluster=self.cluster, secret=secret)
        if present is None:
            return Intent(before=None, after={"config": after})
        before = build_config_image(present, world, cluster=self.cluster, secret=secret)
        return Intent(before={"config": before}, after={"config": after | self._find_kept(before)})

    def perform(self, world: Environment, intent: Intent) -> None:
        if intent.before is None:
            raise RefusedError(f"{self.subject} doesn't exist", hint="list the connectors: seamark connectors list")
        config = reveal_config(self.config, world)
        if self.keep:
            config |= self._read_kept(world, intent)
        world.use(CONNECT)(self.cluster).put_config(self.name, config)

    def observe(self, world: Environment, intent: Intent) -> Observed:
        return compare_config(read_config_image(world, self.cluster, self.name, secret=self._secret()), intent, world)

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        if intent.before is None:
            return None
        before: Mapping[str, Any] = intent.before["config"]
        after: Mapping[str, Any] = intent.after["config"]
        sealed = find_sealed(before)
        if lost := [key for key in sealed if after.get(key) != before[key]]:
            return CanNotUndo(
                f"the previous value of {', '.join(lost)} is a secret, and the journal contains no secrets"
            )
        config = {key: value for key, value in before.items() if key not in sealed}
        return PutConfig(self.cluster, self.name, config, keep=sealed, secret=find_sealed(after))

    def _secret(self) -> tuple[str, ...]:
        return self.secret + self.keep + self.hidden + find_references(self.config)

    def _find_kept(self, image: Mapping[str, Any]) -> dict[str, Any]:
        if lost := sorted(key for key in self.keep if key not in image):
            raise RefusedError(
                f"{self.subject} has no {', '.join(lost)} any more, and the plan doesn't contain the value",
                hint="create a new plan, with the values",
            )
        return {key: image[key] for key in self.keep}

    def _read_kept(self, world: Environment, intent: Intent) -> dict[str, str]:
        """Read the kept values in clear text directly before the request: the journal does not contain them."""
        began_at = world.clock.now()
        present = world.use(CONNECT)(self.cluster).read_config(self.name)
        held = {key: value for key, value in present.items() if key != "name"}
        image = build_config_image(held, world, cluster=self.cluster, secret=self._secret())
        if not is_same_image(image, intent.before["config"], world):
            raise RefusedError(f"another process has just changed {self.subject}; nothing was sent")
        if world.clock.now() - began_at > _READ_SECONDS:
            raise DeadlineError(f"reading the config of {self.subject} took too long; nothing was sent")
        return {key: present[key] for key in self.keep}


@action_kind("delete-connector")
@needs_permission(Permission.DELETE)
@step_kind("delete-connector")
@dataclass(frozen=True, slots=True)
class DeleteConnector(ConnectorAction):
    """Delete a connector. Its offsets or its group remain; Connect never removes them."""

    aspect: ClassVar[str] = "config"
    declares: ClassVar[bool] = True
    settle_seconds: ClassVar[float] = SETTLE_SECONDS

    secret: tuple[str, ...] = ()

    def describe(self) -> str:
        return f"delete {self.subject}; its offsets are kept"

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
        return Effect(ChangeKind.DELETE, self.subject, f"delete: {say_tasks(seen.tasks, 'ends', 'end')}")

    def intend(self, world: Environment) -> Intent:
        before = read_config_image(world, self.cluster, self.name, secret=self.secret)
        if before is None:
            return Intent(before=None, after=None)
        state = read_run_state(world, self.cluster, self.name) or "RUNNING"
        return Intent(before=before, after=None, extra={"state": state})

    def perform(self, world: Environment, intent: Intent) -> None:
        world.use(CONNECT)(self.cluster).delete_connector(self.name)

    def observe(self, world: Environment, intent: Intent) -> Observed:
        seen = compare_config(read_config_image(world, self.cluster, self.name, secret=self.secret), intent, world)
        if seen is Observed.AFTER and read_status(world, self.cluster, self.name) is not None:
            # The status outlives the config for a short time; a create during that time would mix old and new tasks.
            return Observed.BETWEEN
        return seen

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        if intent.before is None:
            return None
        config: Mapping[str, Any] = intent.before["config"]
        if lost := find_sealed(config):
            return CanNotUndo(f"the value of {', '.join(lost)} was a secret, and the journal contains no secrets")
        return CreateConnector(self.cluster, self.name, dict(config), state=intent.extra["state"])
