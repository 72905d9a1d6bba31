"""`seamark doctor`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from seamark.cli.answer import Answer, build_answer
from seamark.cli.options import show_command
from seamark.cli.watch import watch_command
from seamark.connectors.worker_views import build_workers_view
from seamark.core.readings import Finding, Severity
from seamark.doctor.views import build_findings_view
from seamark.overview.views import build_status_view

if TYPE_CHECKING:
    from seamark.fleet import Fleet


@click.command
@show_command
def doctor(fleet: Fleet) -> Answer:
    """Look for what is wrong, and say how to mend it.

    Ends with 1 when something is in error. What is fine is only counted; -o wide lists it.
    """
    findings = fleet.doctor.examine()
    return Answer(build_findings_view(findings), exit_code=1 if has_errors(findings) else 0)


def has_errors(findings: Iterable[Finding]) -> bool:
    """Return whether something needs a repair now."""
    return any(finding.severity is Severity.ERROR for finding in findings)


@click.command
@watch_command
def status(fleet: Fleet) -> Answer:
    """Show every Connect cluster and what is in trouble."""
    found = fleet.status()
    return build_answer(build_status_view(found), found.failures, asked=len(fleet.context.connect))


@click.group
def workers() -> None:
    """Look at the workers of Connect."""


@workers.command("list")
@watch_command
def list_workers(fleet: Fleet) -> Answer:
    """List every worker and whether it answers."""
    reading = fleet.workers.all()
    return build_answer(build_workers_view(reading), reading.failures, asked=len(fleet.context.connect))
