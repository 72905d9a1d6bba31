"""`seamark doctor`."""

from __future__ import annotations

from collections.abc import Iterable

import click

from seamark.cli.answer import Answer
from seamark.cli.options import global_options, pass_session
from seamark.cli.session import Session
from seamark.core.finding import Finding, Severity
from seamark.doctor.views import build_findings_view


@click.command
@global_options
@pass_session
def doctor(session: Session) -> None:
    """Look for what is wrong, and say how to mend it.

    Ends with 1 when something is in error. What is fine is only counted; -o wide lists it.
    """
    with session.fleet() as fleet:
        findings = fleet.doctor.examine()
    session.give(Answer(build_findings_view(findings), exit_code=1 if has_errors(findings) else 0))


def has_errors(findings: Iterable[Finding]) -> bool:
    """Whether something needs mending now."""
    return any(finding.severity is Severity.ERROR for finding in findings)
