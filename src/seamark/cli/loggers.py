"""`seamark connectors loggers`."""

from __future__ import annotations

from fnmatch import fnmatchcase

import click

from seamark.cli.answer import build_answer
from seamark.cli.carry_out import ChangeOptions, carry_out, change_options
from seamark.cli.complete import complete_clusters, complete_loggers, complete_workers
from seamark.cli.options import global_options, option, pass_session
from seamark.cli.session import Session
from seamark.connect.loggers import LEVELS
from seamark.connectors.loggers_view import build_loggers_view

_CLUSTER = option("--cluster", metavar="NAME", help="The Connect cluster.", shell_complete=complete_clusters)


@click.group
def loggers() -> None:
    """Look at what the workers log, and change how much it is."""


@loggers.command("list")
@click.argument("names", nargs=-1, metavar="[NAME|GLOB]...", shell_complete=complete_loggers)
@_CLUSTER
@option("--worker", metavar="URL", help="Only this worker.", shell_complete=complete_workers)
@global_options
@pass_session
def list_loggers(session: Session, *, names: tuple[str, ...], cluster: str | None, worker: str | None) -> None:
    """List loggers and their levels, each level with the workers that have it.

    A logger without a level of its own follows the one above it; from Connect 4.0 on those are listed too.
    """
    with session.fleet() as fleet:
        reading = fleet.loggers.all(cluster=cluster, worker=worker)
    chosen = [found for found in reading.items if not names or any(fnmatchcase(found.name, name) for name in names)]
    asked = max(1, len(reading.failures) + (1 if reading.items else 0))
    session.give(build_answer(build_loggers_view(chosen, reading), reading.failures, asked=asked))


@loggers.command("set")
@click.argument("name", shell_complete=complete_loggers)
@click.argument("level", type=click.Choice(LEVELS, case_sensitive=False))
@_CLUSTER
@option(
    "--worker", multiple=True, metavar="URL", help="On this worker; repeat for more.", shell_complete=complete_workers
)
@option("--all-workers", is_flag=True, help="On every worker of the cluster.")
@change_options
@global_options
@pass_session
def set_logger(
    session: Session,
    *,
    name: str,
    level: str,
    cluster: str | None,
    worker: tuple[str, ...],
    all_workers: bool,
    how: ChangeOptions,
) -> None:
    """Give a logger, and everything whose name begins with it, another level.

    It lasts until the worker restarts, or until it is undone. From Connect 3.7 on --all-workers also reaches workers
    that the context does not name.
    """
    if worker and all_workers:
        raise click.UsageError("give --worker or --all-workers, not both")
    with session.fleet() as fleet:
        planned = fleet.loggers.set(name, level, cluster=cluster, workers=worker, all_workers=all_workers)
        carry_out(session, fleet, planned, how)
