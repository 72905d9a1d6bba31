"""A connector is turned over to a copy, and back. What keeps the way back from losing records is kept with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from seamark.changes.step import CanNotUndo, Intent, Step, step_kind
from seamark.changes.world import World
from seamark.copies.cutover.switch_config import SwitchConfig
from seamark.kafka.api import BROKERS
from seamark.topics.topic_image import require_topic


@step_kind("turn-over")
@dataclass(frozen=True, slots=True)
class SwitchToTarget(SwitchConfig):
    """A connector of a cut-over gets the keys by which it reads or writes the target.

    Its intent keeps where the target ended: nobody of the cut-over writes there before all are turned.
    """

    copy: str = ""
    source: str = ""
    target: str = ""

    def intend(self, world: World) -> Intent:
        seen = SwitchConfig.intend(self, world)
        # Asked of the brokers, and not of the copy: each connector of a cut-over asks, while all stand still.
        spots = require_topic(world, self.target).spots
        bounds = world.use(BROKERS)().read_bounds(spots).require_complete(what=f"the bounds of {self.target}")
        return replace(seen, extra={"ends": {str(spot[1]): found.latest for spot, found in sorted(bounds.items())}})

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        back = SwitchConfig.undo(self, intent)
        if not isinstance(back, SwitchConfig):
            return back
        ends = {int(partition): end for partition, end in intent.extra["ends"].items()}
        return SwitchToSource(self.cluster, self.name, back.values, self.copy, self.source, self.target, ends)


@step_kind("turn-back")
@dataclass(frozen=True, slots=True)
class SwitchToSource(SwitchConfig):
    """A connector that was turned over gets its former keys. `ends` are those of the target at the cut-over."""

    copy: str = ""
    source: str = ""
    target: str = ""
    ends: Mapping[int, int] = field(default_factory=dict)

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        over = SwitchConfig.undo(self, intent)
        if not isinstance(over, SwitchConfig):
            return over
        return SwitchToTarget(self.cluster, self.name, over.values, self.copy, self.source, self.target)
