"""What a change does to a connector for a while and takes back itself: no undo has to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from seamark.changes.step import CanNotUndo, Intent, Step, step_kind
from seamark.connectors.edit_config import EditConfig
from seamark.connectors.run_state import SetRunState
from seamark.core.sensitive import is_sensitive
from seamark.errors import RefusedError
from seamark.topics.topic import CreateTopic

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


@step_kind("lend-config")
@dataclass(frozen=True, slots=True)
class LendConfig(EditConfig):
    """Some keys of a connector's config get other values for a while. With `returns` it is the way back."""

    returns: bool = False

    def describe(self) -> str:
        if self.returns:
            return f"put the config of {self.subject} back"
        return f"lend {self.subject} for a while {self.say_values()}"

    def refuse_keys(self) -> None:
        refuse_lent(self.values)

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        # The change gives back what it lends, in every case. Only where that failed, there is something to undo.
        if self.returns or intent.before is None:
            return None
        former = self.find_former(intent)
        return former if isinstance(former, CanNotUndo) else LendConfig(self.cluster, self.name, former, returns=True)


@step_kind("run-meanwhile")
@dataclass(frozen=True, slots=True)
class RunMeanwhile(SetRunState):
    """A connector runs or stops in the midst of a change. An undo of the change has nothing to do about it."""

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        del intent
        return None


@step_kind("make-parking-topic")
@dataclass(frozen=True, slots=True)
class MakeParkingTopic(CreateTopic):
    """The topic for parked records is created. It stays where the change is undone: the parked record is in it."""

    configs: Mapping[str, str] = field(default_factory=dict)

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        del intent
        return None
