"""Connectors are turned to another topic, all of them or none: what stands on both sides would lose records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from seamark.change.image import is_sealed
from seamark.change.step import CanNotUndo, Intent, Step
from seamark.change.steps.edit_config import EditConfig
from seamark.change.steps.read import read_config
from seamark.change.steps.run_state import SetRunState
from seamark.change.world import World
from seamark.errors import RefusedError
from seamark.model.plan import StepData
from seamark.model.sensitive import is_sensitive


@dataclass(frozen=True, slots=True)
class SwitchConfig(EditConfig):
    """A stopped connector gets the keys by which it reads or writes another topic."""

    kind: ClassVar[str] = "switch-config"

    def describe(self) -> str:
        return f"turn {self.subject} to {self.say_values()}"

    def refuse_keys(self) -> None:
        if found := [key for key in self.values if is_sensitive(key)]:
            raise RefusedError(f"{', '.join(found)} of {self.subject} is a secret, and no plan holds it")

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        if intent.before is None:
            return None
        before: Mapping[str, Any] = intent.before["config"]
        former = {key: before.get(key) for key in self.values}
        if lost := [key for key, value in former.items() if is_sealed(value)]:
            return CanNotUndo(f"the former value of {', '.join(lost)} is a secret, and the journal holds no secrets")
        return SwitchConfig(self.cluster, self.name, former)

    def to_data(self, *, lane: str = "", always: bool = False) -> StepData:
        arguments = {"cluster": self.cluster, "name": self.name, "values": dict(self.values)}
        return StepData(self.kind, self.subject, arguments, lane=lane, always=always)

    @classmethod
    def from_data(cls, data: StepData) -> Self:
        return cls(**data.arguments)

    def is_made(self, world: World) -> bool:
        """Whether the connector has these values now."""
        config = read_config(world, self.cluster, self.name) or {}
        return all(config.get(key) == value for key, value in self.values.items())


@dataclass(frozen=True, slots=True)
class StartSwitched(SetRunState):
    """A connector of a cut-over starts. It does not, while some connectors are turned to the other topic and some not.

    `switches` are those of all of them, each with its way back: a start after a failure needs all of them undone.
    """

    kind: ClassVar[str] = "start-switched"

    switches: tuple[SwitchConfig, ...] = ()

    def intend(self, world: World) -> Intent:
        made = [one.subject for one in self.switches if one.is_made(world)]
        if made and len(made) < len(self.switches):
            rest = [one.subject for one in self.switches if one.subject not in made]
            raise RefusedError(
                f"{self.subject} is not started: the cut-over stands halfway",
                cause=f"{', '.join(made)} is turned to the new topic, and {', '.join(rest)} is not",
                hint="seamark journal resume finishes it; nothing is read or written before",
            )
        return SetRunState.intend(self, world)

    def to_data(self, *, lane: str = "", always: bool = False) -> StepData:
        arguments = {
            "cluster": self.cluster,
            "name": self.name,
            "state": self.state,
            "switches": [dict(one.to_data().arguments) for one in self.switches],
        }
        return StepData(self.kind, self.subject, arguments, lane=lane, always=always)

    @classmethod
    def from_data(cls, data: StepData) -> Self:
        switches = tuple(SwitchConfig(**one) for one in data.arguments["switches"])
        return cls(**{**data.arguments, "switches": switches})
