"""Summary of a fleet: one line for each Connect cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from seamark.connect.api import ConnectPort
from seamark.connect.clusters import Clusters
from seamark.connect.model import Connector, Worker
from seamark.connectors.model import Health, build_health
from seamark.errors import SeamarkError


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """One Connect cluster.

    `version` lists every version that its workers report, separated by commas. `health` counts the connectors by
    health, and `troubled` are those that need attention.
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
    """Every Connect cluster of a context, and by name those that didn't respond."""

    context: str
    clusters: tuple[ClusterStatus, ...]
    failures: Mapping[str, SeamarkError] = field(default_factory=dict)


# These need no attention: they are in an intended state, or about to reach it.
_CALM = frozenset({Health.HEALTHY, Health.PAUSED, Health.STOPPED, Health.RESTARTING})


def read_status(clusters: Clusters, *, context: str) -> FleetStatus:
    """Read a summary of every Connect cluster of the context. One that doesn't respond is in `failures`."""
    answers = clusters.ask(_read_cluster)
    statuses = tuple(
        build_cluster_status(name, workers=workers, connectors=tuple(map(clusters.types.clean, connectors)))
        for name, (workers, connectors) in answers.results.items()
    )
    return FleetStatus(context=context, clusters=statuses, failures=answers.failures)


def build_cluster_status(name: str, *, workers: tuple[Worker, ...], connectors: tuple[Connector, ...]) -> ClusterStatus:
    """Summarize the workers and connectors of one Connect cluster."""
    health = {connector.name: build_health(connector.status) for connector in connectors}
    up = [worker for worker in workers if worker.is_up]
    return ClusterStatus(
        name=name,
        version=", ".join(sorted({worker.version for worker in up if worker.version})),
        workers_up=len(up),
        workers=len(workers),
        connectors=len(connectors),
        tasks=sum(len(connector.status.tasks) for connector in connectors if connector.status is not None),
        health=dict(Counter(health.values())),
        troubled=tuple(
            connector
            for connector in sorted(connectors, key=lambda connector: connector.name)
            if health[connector.name] not in _CALM
        ),
    )


def _read_cluster(client: ConnectPort) -> tuple[tuple[Worker, ...], tuple[Connector, ...]]:
    # The connectors come from a worker's local snapshots, even while the herder is busy.
    return client.read_workers(), client.read_connectors()
