"""What a change does to a connector for a while and takes back itself: no undo has to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from seamark.change.image import build_config_image
from seamark.change.step import CanNotUndo, Intent, Observed, Step
from seamark.change.steps.config import SETTLE_SECONDS, compare_image, read_config_image
from seamark.change.steps.last_look import take_last_look
from seamark.change.steps.read import read_config
from seamark.change.steps.run_state import SetRunState
from seamark.change.steps.stillness import Kept, build_kept_image, pack_kept, unpack_kept
from seamark.change.steps.topic import CreateTopic
from seamark.change.world import World
from seamark.errors import RefusedError
from seamark.model.plan import StepData
from seamark.model.sensitive import is_sensitive

# What says who a connector is, what it reads and from where: a sink with another of these is another sink.
_NOT_LENT = frozenset({"name", "connector.class", "topics", "topics.regex"})
_OVERRIDES, _BATCH = (
    ("consumer.override.", "producer.override.", "admin.override."),
    "consumer.override.max.poll.records",
)


def refuse_lent(keys: Iterable[str]) -> None:
    """Refuse keys that can't be lent: those that make another connector of it, and secrets."""
    for key in keys:
        if key in _NOT_LENT or (key.startswith(_OVERRIDES) and key != _BATCH) or is_sensitive(key):
            raise RefusedError(f"{key} can't be lent for a while; nothing was changed")


@dataclass(frozen=True, slots=True)
class LendConfig:
    """Some keys of a connector's config get other values; None takes a key out. The others stay as Connect holds them.

    With `returns` it is the way back within the same change. The connector should be stopped: from 3.9 on Connect
    restarts tasks for a key that is not theirs, before it does not.
    """

    kind: ClassVar[str] = "lend-config"
    aspect: ClassVar[str] = "config"
    drifts: ClassVar[bool] = False
    acts: ClassVar[bool] = True
    settle_seconds: ClassVar[float] = SETTLE_SECONDS

    cluster: str
    name: str
    values: Mapping[str, str | None]
    returns: bool = False

    @property
    def subject(self) -> str:
        return f"connector/{self.cluster}/{self.name}"

    def describe(self) -> str:
        if self.returns:
            return f"put the config of {self.subject} back"
        said = [f"no {key}" if value is None else f"{key}={value}" for key, value in self.values.items()]
        return f"lend {self.subject} for a while {', '.join(said)}"

    def intend(self, world: World) -> Intent:
        refuse_lent(self.values)
        before = read_config_image(world, self.cluster, self.name, secret=())
        return Intent(before=before, after=None if before is None else {"config": self._merge(before["config"])})

    def perform(self, world: World, intent: Intent) -> None:
        config = take_last_look(world, self.subject, lambda: read_config(world, self.cluster, self.name))
        if config is None:
            raise RefusedError(f"{self.subject} is not there", hint="seamark connectors list shows what is there")
        # The journal holds no secrets, so the rest is sent as it is read now; it must be what was seen.
        if {"config": build_config_image(config, world)} != intent.before:
            raise RefusedError(f"{self.subject} was changed a moment ago by somebody else; nothing was sent")
        world.connect(self.cluster).put_config(self.name, self._merge(config))

    def observe(self, world: World, intent: Intent) -> Observed:
        return compare_image(read_config_image(world, self.cluster, self.name, secret=()), intent)

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        # The change gives back what it lends, in every case: it does not end before.
        del intent
        return None

    def to_data(self, *, lane: str = "", always: bool = False) -> StepData:
        arguments = {
            "cluster": self.cluster,
            "name": self.name,
            "values": dict(self.values),
            "returns": self.returns,
        }
        return StepData(self.kind, self.subject, arguments, lane=lane, always=always)

    @classmethod
    def from_data(cls, data: StepData) -> Self:
        return cls(**data.arguments)

    def _merge(self, config: Mapping[str, Any]) -> dict[str, Any]:
        merged = {**config, **self.values}
        return {key: value for key, value in merged.items() if value is not None}


@dataclass(frozen=True, slots=True)
class RunMeanwhile(SetRunState):
    """A connector runs or stops in the midst of a change. An undo of the change has nothing to do about it.

    Behind a connector that was deleted for a while, `kept` is what it was: one with another config is somebody else's.
    """

    kind: ClassVar[str] = "run-meanwhile"

    kept: Kept | None = None

    def intend(self, world: World) -> Intent:
        self._refuse_other(world)
        return SetRunState.intend(self, world)

    def perform(self, world: World, intent: Intent) -> None:
        take_last_look(world, self.subject, lambda: self._refuse_other(world))
        SetRunState.perform(self, world, intent)

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        del intent
        return None

    def to_data(self, *, lane: str = "", always: bool = False) -> StepData:
        arguments = {"cluster": self.cluster, "name": self.name, "state": self.state, **pack_kept(self.kept)}
        return StepData(self.kind, self.subject, arguments, lane=lane, always=always)

    @classmethod
    def from_data(cls, data: StepData) -> Self:
        return cls(**{**data.arguments, "kept": unpack_kept(data.arguments)})

    def _refuse_other(self, world: World) -> None:
        if self.kept is None:
            return
        image = read_config_image(world, self.cluster, self.name, secret=())
        if image is not None and image != build_kept_image(self.kept, world, self.subject):
            raise RefusedError(
                f"{self.subject} is not the one that was deleted for a while; it is left as it is, not {self.state}",
                cause="its config is another: somebody else created or changed it",
                hint=f"see whose it is: seamark connectors show {self.cluster}/{self.name}",
            )


@dataclass(frozen=True, slots=True)
class MakeParkingTopic(CreateTopic):
    """The topic for parked records is created. It stays where the change is undone: the parked record is in it."""

    kind: ClassVar[str] = "make-parking-topic"
    configs: Mapping[str, str] = field(default_factory=dict)

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        del intent
        return None
