"""`seamark connectors`."""

from __future__ import annotations

from collections.abc import Mapping

import click

from seamark.cli.answer import Answer, build_answer, choose_exit_code
from seamark.cli.complete import complete_connectors
from seamark.cli.connector_configs import change, create
from seamark.cli.connector_verbs import delete, pause, restart, resume, stop
from seamark.cli.heal import heal
from seamark.cli.loggers import loggers
from seamark.cli.options import global_options, pass_session
from seamark.cli.plugins import plugins
from seamark.cli.rename import rename
from seamark.cli.selection import Selection, selection_options
from seamark.cli.session import Session
from seamark.cli.watch import WatchOptions, give, watch_options
from seamark.connect.connector import Connector
from seamark.connectors.connectors import build_connector_view, build_connectors_view
from seamark.core.reading import Reading
from seamark.errors import NotFoundError, SeamarkError


@click.group
def connectors() -> None:
    """Look at connectors, and change them."""


for command in (create, change, pause, resume, stop, restart, heal, rename, delete, plugins, loggers):
    connectors.add_command(command)


@connectors.command("list")
@selection_options(metavar="[NAME|GLOB]...")
@watch_options
@global_options
@pass_session
def list_connectors(session: Session, *, selection: Selection, cluster: str | None, watching: WatchOptions) -> None:
    """List connectors with their health.

    NAME may be CLUSTER/NAME. Without any, all connectors of the context are listed.
    """
    with session.fleet() as fleet:

        def read() -> Answer:
            reading = fleet.connectors.all(cluster=cluster)
            return build_list_answer(reading, selection, asked=1 if cluster else len(fleet.context.connect))

        give(session, read, watching)


@connectors.command("show")
@click.argument("name", shell_complete=complete_connectors)
@global_options
@pass_session
def show_connector(session: Session, name: str) -> None:
    """Show one connector, NAME or CLUSTER/NAME: tasks, errors, config."""
    with session.fleet() as fleet:
        session.give(Answer(build_connector_view(fleet.connectors.one(name))))


def build_list_answer(reading: Reading[Connector], selection: Selection, *, asked: int) -> Answer:
    """The connectors that were meant; a plain name that is nowhere is an error, not an empty list."""
    chosen = selection.pick(reading.items)
    answer = build_answer(build_connectors_view(chosen, reading.failures), reading.failures, asked=asked)
    missing = selection.find_missing(reading.items)
    if not missing:
        return answer
    absent = tuple(_build_absence(name, reading.failures) for name in missing)
    if answer.exit_code:
        return Answer(answer.view, answer.errors + absent, answer.exit_code)
    return Answer(answer.view, absent, choose_exit_code(absent, all_failed=not chosen))


def _build_absence(name: str, failures: Mapping[str, SeamarkError]) -> NotFoundError:
    silent = f"it may be in {', '.join(failures)}, which did not answer" if failures else ""
    return NotFoundError(
        f"there is no connector {name}",
        cause=silent,
        hint="seamark connectors list shows all of them",
        context={"connector": name},
    )
