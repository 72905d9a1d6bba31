"""A connector comes, changes, and goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from seamark.change.image import SECRET_SCHEME, build_config_image, is_sealed, reveal_config
from seamark.change.step import CanNotUndo, Intent, Observed, Step
from seamark.change.steps.read import read_config, read_run_state, read_status
from seamark.change.world import World
from seamark.errors import RefusedError
from seamark.model.plan import StepData
from seamark.model.sensitive import MASK, is_reference, is_sensitive

# A worker that takes part in a rebalance shows a change within seconds; a minute is a cluster in trouble.
_SETTLE_SECONDS = 60.0


def _hide(config: Mapping[str, str]) -> dict[str, str]:
    """The config as a plan may hold it: literal secrets are left out, references stay."""
    return {
        key: MASK if is_sensitive(key) and not is_reference(value) and not value.startswith(SECRET_SCHEME) else value
        for key, value in config.items()
    }


def _refuse_hidden(config: Mapping[str, str], subject: str) -> None:
    hidden = sorted(key for key, value in config.items() if value == MASK)
    if hidden:
        raise RefusedError(
            f"the plan does not hold the secrets of {subject}",
            cause=f"hidden when the plan was saved: {', '.join(hidden)}",
            hint="make the plan anew from the file, or write the values as secret:// references",
        )


@dataclass(frozen=True, slots=True)
class CreateConnector:
    """A connector that is not there yet is created."""

    kind: ClassVar[str] = "create-connector"
    aspect: ClassVar[str] = "config"
    settle_seconds: ClassVar[float] = _SETTLE_SECONDS

    cluster: str
    name: str
    config: Mapping[str, str]
    state: str = "RUNNING"

    @property
    def subject(self) -> str:
        return f"connector/{self.cluster}/{self.name}"

    def describe(self) -> str:
        start = "and starts" if self.state == "RUNNING" else f"as {self.state}"
        return f"create {self.subject} {start}"

    def intend(self, world: World) -> Intent:
        before = read_config(world, self.cluster, self.name)
        image = build_config_image(reveal_config(self.config, world), world)
        return Intent(
            before={"config": build_config_image(before, world)} if before is not None else None,
            after={"config": image},
        )

    def perform(self, world: World, intent: Intent) -> None:
        if intent.before is not None:
            raise RefusedError(
                f"{self.subject} is there already", hint="change it instead of creating it, or choose another name"
            )
        _refuse_hidden(self.config, self.subject)
        state = None if self.state == "RUNNING" else self.state
        world.connect(self.cluster).create_connector(self.name, reveal_config(self.config, world), initial_state=state)

    def observe(self, world: World, intent: Intent) -> Observed:
        return _observe_config(world, self.cluster, self.name, intent=intent)

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        del intent
        return DeleteConnector(self.cluster, self.name)

    def to_data(self, *, lane: str = "", always: bool = False) -> StepData:
        arguments = {"cluster": self.cluster, "name": self.name, "config": _hide(self.config), "state": self.state}
        return StepData(self.kind, self.subject, arguments, lane=lane, always=always)

    @classmethod
    def from_data(cls, data: StepData) -> Self:
        return cls(**data.arguments)


@dataclass(frozen=True, slots=True)
class PutConfig:
    """A connector's config is replaced. The values of `keep` stay as Connect holds them."""

    kind: ClassVar[str] = "put-config"
    aspect: ClassVar[str] = "config"
    settle_seconds: ClassVar[float] = _SETTLE_SECONDS

    cluster: str
    name: str
    config: Mapping[str, str]
    keep: tuple[str, ...] = field(default=())

    @property
    def subject(self) -> str:
        return f"connector/{self.cluster}/{self.name}"

    def describe(self) -> str:
        return f"change the config of {self.subject}, which restarts it"

    def intend(self, world: World) -> Intent:
        before = read_config(world, self.cluster, self.name)
        if before is None:
            return Intent(before=None, after={"config": build_config_image(self.config, world)})
        after = reveal_config(self.config, world) | {key: before[key] for key in self.keep if key in before}
        return Intent(
            before={"config": build_config_image(before, world)}, after={"config": build_config_image(after, world)}
        )

    def perform(self, world: World, intent: Intent) -> None:
        if intent.before is None:
            raise RefusedError(f"{self.subject} is not there", hint="seamark connectors list shows what is there")
        _refuse_hidden(self.config, self.subject)
        config = reveal_config(self.config, world)
        if self.keep:
            present = world.connect(self.cluster).read_config(self.name)
            config |= {key: present[key] for key in self.keep if key in present}
        world.connect(self.cluster).put_config(self.name, config)

    def observe(self, world: World, intent: Intent) -> Observed:
        return _observe_config(world, self.cluster, self.name, intent=intent)

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        before: Mapping[str, Any] = intent.before["config"]
        after: Mapping[str, Any] = intent.after["config"]
        sealed = [key for key, value in before.items() if is_sealed(value)]
        if lost := sorted(key for key in sealed if after.get(key) != before[key]):
            return CanNotUndo(f"the former value of {', '.join(lost)} is a secret, and the journal holds no secrets")
        config = {key: value for key, value in before.items() if key not in sealed}
        return PutConfig(self.cluster, self.name, config, keep=tuple(sorted(sealed)))

    def to_data(self, *, lane: str = "", always: bool = False) -> StepData:
        arguments = {
            "cluster": self.cluster,
            "name": self.name,
            "config": _hide(self.config),
            "keep": list(self.keep),
        }
        return StepData(self.kind, self.subject, arguments, lane=lane, always=always)

    @classmethod
    def from_data(cls, data: StepData) -> Self:
        return cls(**{**data.arguments, "keep": tuple(data.arguments.get("keep", ()))})


@dataclass(frozen=True, slots=True)
class DeleteConnector:
    """A connector is deleted. Its offsets or its group stay behind; Connect never removes them."""

    kind: ClassVar[str] = "delete-connector"
    aspect: ClassVar[str] = "config"
    settle_seconds: ClassVar[float] = _SETTLE_SECONDS

    cluster: str
    name: str

    @property
    def subject(self) -> str:
        return f"connector/{self.cluster}/{self.name}"

    def describe(self) -> str:
        return f"delete {self.subject}; its positions stay behind"

    def intend(self, world: World) -> Intent:
        config = read_config(world, self.cluster, self.name)
        if config is None:
            return Intent(before=None, after=None)
        state = read_run_state(world, self.cluster, self.name) or "RUNNING"
        return Intent(before={"config": build_config_image(config, world)}, after=None, extra={"state": state})

    def perform(self, world: World, intent: Intent) -> None:
        del intent
        world.connect(self.cluster).delete_connector(self.name)

    def observe(self, world: World, intent: Intent) -> Observed:
        config = read_config(world, self.cluster, self.name)
        if config is None:
            # The status outlives the config for a moment; a create in that moment would mix old and new tasks.
            return Observed.BETWEEN if read_status(world, self.cluster, self.name) else Observed.AFTER
        if intent.before and build_config_image(config, world) == intent.before["config"]:
            return Observed.BEFORE
        return Observed.FOREIGN

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        if intent.before is None:
            return None
        config: Mapping[str, Any] = intent.before["config"]
        if lost := sorted(key for key, value in config.items() if is_sealed(value)):
            return CanNotUndo(f"the value of {', '.join(lost)} was a secret, and the journal holds no secrets")
        return CreateConnector(self.cluster, self.name, dict(config), state=intent.extra["state"])

    def to_data(self, *, lane: str = "", always: bool = False) -> StepData:
        arguments = {"cluster": self.cluster, "name": self.name}
        return StepData(self.kind, self.subject, arguments, lane=lane, always=always)

    @classmethod
    def from_data(cls, data: StepData) -> Self:
        return cls(**data.arguments)


def _observe_config(world: World, cluster: str, name: str, *, intent: Intent) -> Observed:
    config = read_config(world, cluster, name)
    image = None if config is None else {"config": build_config_image(config, world)}
    if image == intent.after:
        return Observed.AFTER
    return Observed.BEFORE if image == intent.before else Observed.FOREIGN
