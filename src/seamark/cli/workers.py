"""`seamark workers`."""

from __future__ import annotations

import click

from seamark.cli.answer import Answer, build_answer
from seamark.cli.options import global_options, pass_session
from seamark.cli.session import Session
from seamark.cli.watch import WatchOptions, give, watch_options
from seamark.connectors.workers_view import build_workers_view


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

        give(session, read, watching)
