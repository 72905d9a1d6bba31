"""Everything that plans changes of offsets, built when it is first needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seamark.change.journal import Journal
    from seamark.context import Context
    from seamark.fleet.brokers.groups import Groups
    from seamark.fleet.clusters import Clusters
    from seamark.fleet.connector_life.connectors import Connectors
    from seamark.fleet.moment.plans import Moments
    from seamark.fleet.moving.mend import OffsetMends
    from seamark.fleet.moving.plans import OffsetPlans
    from seamark.fleet.moving.purge import OffsetPurges
    from seamark.fleet.moving.verbs import OffsetMoves, RelocationPlans
    from seamark.fleet.planner import Planner
    from seamark.fleet.planning import PlanningWorld
    from seamark.fleet.positions.stores import OffsetStores


@dataclass(frozen=True)
class OffsetServices:
    """The planners of one fleet. What they need is asked for when they do, so that a look at `--help` loads nothing."""

    context: Context
    clusters: Clusters
    connectors: Connectors
    stores: Callable[[], OffsetStores]
    world: Callable[[], PlanningWorld]
    planner: Callable[[], Planner]
    groups: Callable[[], Groups]
    journal: Callable[[], Journal]
    relocations: Callable[[], RelocationPlans]

    @cached_property
    def plans(self) -> OffsetPlans:
        """The guarded write of a connector's offsets."""
        from seamark.fleet.moving.plans import OffsetPlans  # noqa: PLC0415

        return OffsetPlans(self.context, clusters=self.clusters, world=self.world, planner=self.planner)

    @cached_property
    def moves(self) -> OffsetMoves:
        """Other places for owners."""
        from seamark.fleet.moving.verbs import OffsetMoves  # noqa: PLC0415

        return OffsetMoves(
            clusters=self.clusters,
            connectors=self.connectors,
            stores=self.stores,
            world=self.world,
            plans=lambda: self.plans,
            groups=self.groups,
            relocations=self.relocations,
            moments=lambda: self.moments,
        )

    @cached_property
    def moments(self) -> Moments:
        """Ways back to where owners stood."""
        from seamark.fleet.moment.plans import Moments  # noqa: PLC0415

        return Moments(
            self.context,
            clusters=self.clusters,
            connectors=self.connectors,
            stores=self.stores,
            world=self.world,
            groups=self.groups,
            journal=self.journal,
            planner=self.planner,
            write=self.moves.write,
        )

    @cached_property
    def mends(self) -> OffsetMends:
        """Records as Connect would have written them."""
        from seamark.fleet.moving.mend import OffsetMends  # noqa: PLC0415

        return OffsetMends(
            self.context,
            clusters=self.clusters,
            connectors=self.connectors,
            stores=self.stores,
            world=self.world,
            planner=self.planner,
        )

    @cached_property
    def purges(self) -> OffsetPurges:
        """The end of what connectors left behind."""
        from seamark.fleet.moving.purge import OffsetPurges  # noqa: PLC0415

        return OffsetPurges(clusters=self.clusters, stores=self.stores, world=self.world, planner=self.planner)
