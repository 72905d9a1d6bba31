"""Summary of a fleet: one line for each Connect cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from seamark.connect.api import ConnectPort
from seamark.connect.clusters import Clusters
from seamark.connect.model import Connector, State, Worker, fold_trace
from seamark.connectors.model import Health, build_health
from seamark.connectors.views import CONNECTOR_LISTING, build_health_spans, render_health, style_health
from seamark.core.readings import Severity
from seamark.errors import SeamarkError
from seamark.report.listing import Column, Listing, View
from seamark.report.table import Cell, build_table
from seamark.report.terminal import build_failures
from seamark.report.text import Line, Screen, Span, Style, line
from seamark.report.words import render_count, render_number


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

    @property
    def severity(self) -> Severity:
        """The worst problem: ERROR if something failed or no worker responds, WARNING if it may recover, else OK."""
        if not self.workers_up or not _FAILED.isdisjoint(self.health):
            return Severity.ERROR
        return Severity.WARNING if self.troubled or self.workers_up < self.workers else Severity.OK


@dataclass(frozen=True, slots=True)
class FleetStatus:
    """Every Connect cluster of a context, and by name those that didn't respond."""

    context: str
    clusters: tuple[ClusterStatus, ...]
    failures: Mapping[str, SeamarkError] = field(default_factory=dict)


_FAILED = frozenset({Health.UNHEALTHY, Health.DEGRADED})
# These need no attention: they are in an intended state, or about to reach it.
_CALM = frozenset({Health.HEALTHY, Health.PAUSED, Health.STOPPED, Health.RESTARTING})


def read_status(
    clusters: Clusters, *, context: str, pick: Callable[[Iterable[Connector]], Sequence[Connector]] = tuple
) -> FleetStatus:
    """Read a summary of every Connect cluster of the context. One that doesn't respond is in `failures`.

    `pick` chooses the connectors of a Connect cluster that count; all of them by default.
    """
    answers = clusters.ask(_read_cluster)
    statuses = tuple(
        build_cluster_status(name, workers=workers, connectors=tuple(map(clusters.types.clean, pick(connectors))))
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


# A screen has about forty lines; `connectors list --state …` shows the rest.
_SHOWN_IN_TROUBLE = 20


def _style_workers(cluster: ClusterStatus) -> Style:
    return Style.PLAIN if cluster.workers_up == cluster.workers else Style.BAD


LISTING: Listing[ClusterStatus] = Listing(
    kind="FleetStatus",
    noun="cluster",
    name=lambda cluster: cluster.name,
    columns=(
        Column("cluster", "CLUSTER", lambda cluster: cluster.name),
        Column("version", "VERSION", lambda cluster: cluster.version),
        Column(
            "workers_up",
            "WORKERS",
            lambda cluster: cluster.workers_up,
            text=lambda cluster: f"{cluster.workers_up}/{cluster.workers}",
            style=_style_workers,
            right=True,
        ),
        Column("workers", "", lambda cluster: cluster.workers),
        Column(
            "connectors",
            "CONNECTORS",
            lambda cluster: cluster.connectors,
            text=lambda cluster: render_number(cluster.connectors),
            right=True,
        ),
        Column(
            "tasks",
            "TASKS",
            lambda cluster: cluster.tasks,
            text=lambda cluster: render_number(cluster.tasks),
            right=True,
        ),
        Column(
            "health",
            "HEALTH",
            lambda cluster: {health.value: count for health, count in cluster.health.items()},
            text=lambda cluster: "  ".join(span.text for span in build_health_spans(cluster.health)) or "-",
            style=lambda cluster: next((span.style for span in build_health_spans(cluster.health)), Style.PLAIN),
        ),
    ),
)


def build_status_view(status: FleetStatus) -> View[ClusterStatus]:
    """Build the view of every Connect cluster of a context, with the connectors in trouble and their first reason."""
    return View(
        LISTING,
        status.clusters,
        body=lambda: _build_body(status),
        lines=lambda screen: _build_lines(status, screen),
    )


def _build_body(status: FleetStatus) -> dict[str, Any]:
    clusters = [
        {**item, "troubled": CONNECTOR_LISTING.build_items(cluster.troubled)}
        for item, cluster in zip(LISTING.build_items(status.clusters), status.clusters, strict=True)
    ]
    return {"context": status.context, "clusters": clusters, "failures": build_failures(status.failures)}


def _build_lines(status: FleetStatus, screen: Screen) -> list[Line]:
    troubled = [connector for cluster in status.clusters for connector in cluster.troubled]
    lines = [
        line("Context ", Span(status.context, Style.STRONG)),
        *LISTING.build_lines(status.clusters, screen, indent="  "),
    ]
    if troubled:
        lines.append(line(Span(f"Unhealthy: {render_count(len(troubled), 'connector')}", Style.STRONG)))
        rows = [_build_trouble(connector) for connector in troubled[:_SHOWN_IN_TROUBLE]]
        lines += build_table([], rows, screen=replace(screen, headers=False), indent="  ")
    if len(troubled) > _SHOWN_IN_TROUBLE:
        rest = len(troubled) - _SHOWN_IN_TROUBLE
        lines.append(line("  ", Span(f"… {render_number(rest)} more: seamark connectors list", Style.MUTED)))
    return lines


def _build_trouble(connector: Connector) -> list[Cell]:
    health = build_health(connector.status)
    return [
        Cell(render_health(health), style_health(health)),
        Cell(connector.owner),
        Cell(_build_reason(connector)),
    ]


def _build_reason(connector: Connector) -> str:
    """Return the root cause of the first failure."""
    status = connector.status
    if status is None:
        return "Connect has no status of it"
    if status.state is State.FAILED:
        return fold_trace(status.trace).root
    failed = [task for task in status.tasks if task.state is State.FAILED]
    if failed:
        return f"task {failed[0].id}: {fold_trace(failed[0].trace).root}"
    return "" if status.tasks else "no tasks"
