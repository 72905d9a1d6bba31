"""`seamark status`."""

from __future__ import annotations

import click

from seamark.cli.answer import Answer, build_answer
from seamark.cli.options import global_options, pass_session
from seamark.cli.session import Session
from seamark.cli.watch import WatchOptions, give, watch_options
from seamark.overview.views import build_status_view


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

        give(session, read, watching)
