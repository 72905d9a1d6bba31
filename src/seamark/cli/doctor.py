"""`seamark doctor`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from seamark.cli.answer import Answer, build_answer
from seamark.cli.options import show_command
from seamark.cli.tree import command, group
from seamark.cli.watch import watch_command
from seamark.connectors.worker_views import build_workers_view
from seamark.core.readings import Finding, Severity
from seamark.doctor.views import build_findings_view
from seamark.overview.status import build_status_view

if TYPE_CHECKING:
    from seamark.fleet import Fleet


@command(examples=["seamark doctor", "seamark doctor -o json"])
@show_command
def doctor(fleet: Fleet) -> Answer:
    """Find problems and how to fix them.

    Ends with exit code 1 if a finding is an error. Checks that passed are counted; -o wide lists them.
    """
    findings = fleet.doctor.examine()
    return Answer(build_findings_view(findings), exit_code=1 if has_errors(findings) else 0)


def has_errors(findings: Iterable[Finding]) -> bool:
    """Return whether something needs a repair now."""
    return any(finding.severity is Severity.ERROR for finding in findings)


@command(examples=["seamark status", "seamark status --watch --interval 5s"])
@watch_command
def status(fleet: Fleet) -> Answer:
    """Show the health of each Connect cluster."""
    found = fleet.status()
    return build_answer(build_status_view(found), found.failures, asked=len(fleet.context.connect))


@group()
def workers() -> None:
    """Inspect Connect workers."""


@workers.command("list", examples=["seamark workers list", "seamark workers list --watch"])
@watch_command
def list_workers(fleet: Fleet) -> Answer:
    """List workers and whether they respond."""
    reading = fleet.workers.list()
    return build_answer(build_workers_view(reading), reading.failures, asked=len(fleet.context.connect))
