"""A first look at a fleet: each Connect cluster in a few numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from seamark.connect.connector import Connector
from seamark.connectors.health import Health
from seamark.errors import SeamarkError


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """One Connect cluster.

    `version` names every version its workers report, joined by a comma. `health` counts the
    connectors by word, and `troubled` are those that somebody should look at.
    """

    name: str
    version: str
    workers_up: int
    workers: int
    connectors: int
    tasks: int
    health: Mapping[Health, int] = field(default_factory=dict)
    troubled: tuple[Connector, ...] = ()


@dataclass(frozen=True, slots=True)
class FleetStatus:
    """Every Connect cluster of a context, and by name those that did not answer."""

    context: str
    clusters: tuple[ClusterStatus, ...]
    failures: Mapping[str, SeamarkError] = field(default_factory=dict)
