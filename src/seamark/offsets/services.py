"""Everything that plans changes of offsets, built when it is first needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seamark.changes.journal import Journal
    from seamark.changes.planner import Planner
    from seamark.connect.clusters import Clusters
    from seamark.connectors.service import Connectors
    from seamark.context import Context
    from seamark.groups.service import Groups
    from seamark.offsets.move.moves import OffsetMoves, RelocationPlans
    from seamark.offsets.port import PlanningWorld
    from seamark.offsets.purge import OffsetPurges
    from seamark.offsets.repair.plans import OffsetMends
    from seamark.offsets.restore.plans import Moments
    from seamark.offsets.stores.stores import OffsetStores
    from seamark.offsets.write.plans import OffsetPlans


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
        from seamark.offsets.write.plans import OffsetPlans  # noqa: PLC0415

        return OffsetPlans(self.context, clusters=self.clusters, world=self.world, planner=self.planner)

    @cached_property
    def moves(self) -> OffsetMoves:
        """Other places for owners."""
        from seamark.offsets.move.moves import OffsetMoves  # noqa: PLC0415

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
        from seamark.offsets.restore.plans import Moments  # noqa: PLC0415

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
        from seamark.offsets.repair.plans import OffsetMends  # noqa: PLC0415

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
        from seamark.offsets.purge import OffsetPurges  # noqa: PLC0415

        return OffsetPurges(clusters=self.clusters, stores=self.stores, world=self.world, planner=self.planner)
