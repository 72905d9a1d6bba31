"""Connectors are turned to another topic, all of them or none: what stands on both sides would lose records."""

from __future__ import annotations

from dataclasses import dataclass

from seamark.changes.step import CanNotUndo, Intent, Step, step_kind
from seamark.changes.world import World
from seamark.connectors.edit_config import EditConfig
from seamark.connectors.read import read_config
from seamark.connectors.run_state import SetRunState
from seamark.core.sensitive import is_sensitive
from seamark.errors import RefusedError


@step_kind("switch-config")
@dataclass(frozen=True, slots=True)
class SwitchConfig(EditConfig):
    """A stopped connector gets the keys by which it reads or writes another topic."""

    def describe(self) -> str:
        return f"turn {self.subject} to {self.say_values()}"

    def refuse_keys(self) -> None:
        if found := [key for key in self.values if is_sensitive(key)]:
            raise RefusedError(f"{', '.join(found)} of {self.subject} is a secret, and no plan holds it")

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        if intent.before is None:
            return None
        former = self.find_former(intent)
        return former if isinstance(former, CanNotUndo) else SwitchConfig(self.cluster, self.name, former)

    def is_made(self, world: World) -> bool:
        """Whether the connector has these values now."""
        config = read_config(world, self.cluster, self.name) or {}
        return all(config.get(key) == value for key, value in self.values.items())


@step_kind("start-switched")
@dataclass(frozen=True, slots=True)
class StartSwitched(SetRunState):
    """A connector of a cut-over starts. It does not, while some connectors are turned to the other topic and some not.

    `switches` are those of all of them, each with its way back: a start after a failure needs all of them undone.
    """

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
