"""`seamark doctor`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from seamark.cli.answer import Answer, build_answer, choose_exit_code
from seamark.cli.complete import complete_clusters, complete_workers
from seamark.cli.options import fail_on_option, is_failing, option, show_command
from seamark.cli.selection import label_option
from seamark.cli.tree import command, group
from seamark.cli.watch import watch_command
from seamark.connectors.worker_views import build_worker_view, build_workers_view
from seamark.core.readings import Finding, Severity
from seamark.doctor.views import build_findings_view
from seamark.overview.status import build_status_view

if TYPE_CHECKING:
    from seamark.fleet import Fleet


@command(examples=["seamark doctor", "seamark doctor --fail-on warning -o json"])
@fail_on_option("there is a finding", default="error")
@show_command
def doctor(fleet: Fleet, *, fail_on: str) -> Answer:
    """Find problems and how to fix them.

    Checks that passed are counted; -o wide lists them.
    """
    findings = fleet.doctor.examine()
    has_failed = is_failing((finding.severity for finding in findings), fail_on)
    return Answer(build_findings_view(findings), exit_code=int(has_failed))


def has_errors(findings: Iterable[Finding]) -> bool:
    """Return whether something needs a repair now."""
    return any(finding.severity is Severity.ERROR for finding in findings)


@command(examples=["seamark status", "seamark status --watch --interval 5s", "seamark status --fail-on error"])
@fail_on_option("there is a problem")
@label_option
@watch_command
def status(fleet: Fleet, *, fail_on: str | None, label: tuple[str, ...]) -> Answer:
    """Show the health of each Connect cluster.

    For --fail-on, a connector or task that failed is an error, and so is a Connect cluster without a worker that
    responds. A connector in another unhealthy state is a warning, and so is a worker that doesn't respond.
    """
    found = fleet.status(labels=label)
    answer = build_answer(build_status_view(found), found.failures, asked=len(fleet.context.connect))
    has_failed = is_failing((cluster.severity for cluster in found.clusters), fail_on)
    return replace(answer, exit_code=answer.exit_code or int(has_failed))


@group()
def workers() -> None:
    """Inspect Connect workers."""


@workers.command("list", examples=["seamark workers list", "seamark workers list --watch"])
@watch_command
def list_workers(fleet: Fleet) -> Answer:
    """List workers and whether they respond.

    Below the table, seamark reports connectors or tasks that are unevenly distributed over the workers of a Connect
    cluster.
    """
    reading = fleet.workers.list()
    return build_answer(build_workers_view(reading), reading.failures, asked=len(fleet.context.connect))


@workers.command(
    "show", examples=["seamark workers show http://worker-1:8083", "seamark workers show worker-1:8083 -o wide"]
)
@click.argument("name", metavar="WORKER", shell_complete=complete_workers)
@option("--cluster", metavar="NAME", help="The worker of this Connect cluster.", shell_complete=complete_clusters)
@show_command
def show_worker(fleet: Fleet, *, name: str, cluster: str | None) -> Answer:
    """Show what runs on a worker.

    WORKER is a URL of the context, or the worker's ID as connectors show prints it (host:port). The plugins are those
    that another worker of its Connect cluster has and this one lacks. The worker group and its leader are read from the
    brokers if the context has the group_id. What can't be read is reported in its place; the rest is shown.
    """
    detail = fleet.workers.get(name, cluster=cluster)
    errors = tuple(detail.failures.values())
    return Answer(build_worker_view(detail), errors, choose_exit_code(errors, all_failed=False))
