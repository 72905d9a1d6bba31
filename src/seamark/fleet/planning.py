"""What actions of the fleet read while a plan is in the making."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from seamark.change.world import Port, World

if TYPE_CHECKING:
    from seamark.change.copy_port import CopyPort
    from seamark.context import ConnectSettings, Context
    from seamark.fleet.clusters import Clusters
    from seamark.fleet.ports import BrokersPort, ConnectPort


class PlanningWorld(World, Protocol):
    """The running systems as a plan of offsets reads them."""

    def kafka(self) -> BrokersPort:
        """Return the brokers of the context, with all that can be read of them."""
        ...

    def expect_connectors(self, names: Iterable[str]) -> None:
        """Announce the connectors that a plan is about: one scan of their topic then reads all of them."""
        ...


@dataclass(frozen=True, slots=True)
class Planning:
    """The context and the clients of a fleet, for `Action.inspect`."""

    context: Context
    clusters: Clusters

    def settings(self, cluster: str) -> ConnectSettings:
        """Return what the context says of a Connect cluster."""
        return self.clusters.settings(cluster)

    def client(self, cluster: str) -> ConnectPort:
        """Return the client that reads a Connect cluster."""
        return self.clusters.client(cluster)


PLANNING: Port[Planning] = Port("planning")
COPY_PREVIEW: Port[Callable[[], CopyPort]] = Port("copy preview")
"""Opens the copies of topics for reading. Nothing is recounted, so that Spark isn't started."""
