"""`seamark offsets`."""

from __future__ import annotations

import click

from seamark.cli.answer import Answer
from seamark.cli.complete import complete_connectors
from seamark.cli.options import global_options, pass_session
from seamark.cli.session import Session
from seamark.report.views.offsets import build_offsets_view


@click.group
def offsets() -> None:
    """Look at reading positions."""


@offsets.command("show")
@click.argument("owner", shell_complete=complete_connectors)
@global_options
@pass_session
def show_offsets(session: Session, owner: str) -> None:
    """Show what OWNER, a connector NAME or CLUSTER/NAME, remembers."""
    with session.fleet() as fleet:
        session.give(Answer(build_offsets_view(fleet.offsets.of(owner))))
