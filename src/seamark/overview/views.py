"""Views of the fleet's status: Connect clusters in numbers, then the connectors that need attention."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from seamark.connect.model import Connector, State, fold_trace
from seamark.connectors.model import build_health
from seamark.connectors.views import CONNECTOR_LISTING, build_health_spans, render_health, style_health
from seamark.overview.status import ClusterStatus, FleetStatus
from seamark.report.listing import Column, Listing, View
from seamark.report.table import Cell, build_table
from seamark.report.terminal import build_failures
from seamark.report.text import Line, Screen, Span, Style, line
from seamark.report.words import render_count, render_number

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
