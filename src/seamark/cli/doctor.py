"""`seamark doctor`."""

from __future__ import annotations

from collections.abc import Iterable

import click

from seamark.cli.answer import Answer, build_answer
from seamark.cli.options import global_options, pass_session
from seamark.cli.session import Session
from seamark.cli.watch import WatchOptions, show_answer, watch_options
from seamark.connectors.worker_views import build_workers_view
from seamark.core.readings import Finding, Severity
from seamark.doctor.views import build_findings_view
from seamark.overview.views import build_status_view


@click.command
@global_options
@pass_session
def doctor(session: Session) -> None:
    """Look for what is wrong, and say how to mend it.

    Ends with 1 when something is in error. What is fine is only counted; -o wide lists it.
    """
    with session.fleet() as fleet:
        findings = fleet.doctor.examine()
    session.show(Answer(build_findings_view(findings), exit_code=1 if has_errors(findings) else 0))


def has_errors(findings: Iterable[Finding]) -> bool:
    """Whether something needs mending now."""
    return any(finding.severity is Severity.ERROR for finding in findings)


@click.command
@watch_options
@global_options
@pass_session
def status(session: Session, watching: WatchOptions) -> None:
    """Show every Connect cluster and what is in trouble."""
    with session.fleet() as fleet:

        def read() -> Answer:
            found = fleet.status()
            return build_answer(build_status_view(found), found.failures, asked=len(fleet.context.connect))

        show_answer(session, read, watching)


@click.group
def workers() -> None:
    """Look at the workers of Connect."""


@workers.command("list")
@watch_options
@global_options
@pass_session
def list_workers(session: Session, watching: WatchOptions) -> None:
    """List every worker and whether it answers."""
    with session.fleet() as fleet:

        def read() -> Answer:
            reading = fleet.workers.all()
            return build_answer(build_workers_view(reading), reading.failures, asked=len(fleet.context.connect))

        show_answer(session, read, watching)
