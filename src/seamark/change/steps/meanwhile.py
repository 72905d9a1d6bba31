"""What a change does to a connector for a while and takes back itself: no undo has to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self

from seamark.change.step import CanNotUndo, Intent, Step
from seamark.change.steps.config import read_config_image
from seamark.change.steps.edit_config import EditConfig
from seamark.change.steps.last_look import take_last_look
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
class LendConfig(EditConfig):
    """Some keys of a connector's config get other values for a while. With `returns` it is the way back."""

    kind: ClassVar[str] = "lend-config"

    returns: bool = False

    def describe(self) -> str:
        if self.returns:
            return f"put the config of {self.subject} back"
        return f"lend {self.subject} for a while {self.say_values()}"

    def refuse_keys(self) -> None:
        refuse_lent(self.values)

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
