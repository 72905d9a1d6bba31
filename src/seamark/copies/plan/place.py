"""The two ends of a copy: the Kafka cluster that has the source topic, and the one that has the target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seamark.changes.actor import Actor
    from seamark.changes.planned import Planned
    from seamark.changes.planner import Planner
    from seamark.changes.result import ChangeResult
    from seamark.changes.world import World
    from seamark.context import Context
    from seamark.copies.plan.ports import CopyLogs
    from seamark.kafka.api import BrokersPort


@dataclass(frozen=True, slots=True)
class CopyEndpoint:
    """One context of a copy. The registered plan and the control records are in the Kafka cluster of the target.

    `open_kafka` connects to the brokers again after the fleet was closed. `planner` is called when a change is planned:
    most commands plan none.
    """

    context: Context
    world: World
    open_kafka: Callable[[], BrokersPort]
    logs: CopyLogs
    actor: Actor
    planner: Callable[[], Planner]
    apply: Callable[[Planned], ChangeResult]

    @property
    def kafka(self) -> BrokersPort:
        """The brokers."""
        return self.open_kafka()


@dataclass(frozen=True, slots=True)
class CopyEndpoints:
    """Source and target of a copy: the same endpoint for a copy within one Kafka cluster."""

    source: CopyEndpoint
    target: CopyEndpoint

    @property
    def is_cross_cluster(self) -> bool:
        """Whether the target is in another context than the source."""
        return self.source is not self.target
