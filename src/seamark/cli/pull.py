"""`seamark pull`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from seamark.cli.answer import Answer, choose_exit_code
from seamark.cli.complete import complete_clusters, complete_connectors
from seamark.cli.options import global_options, option, pass_session
from seamark.cli.session import Session
from seamark.errors import PartialError
from seamark.specs.pull_view import build_pull_view

_FOLDER = "config"


@click.command
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_connectors)
@option(
    "-f",
    "--file",
    "folder",
    type=click.Path(path_type=Path),
    default=_FOLDER,
    show_default=True,
    metavar="DIR",
    help="The folder of spec files to write.",
)
@option(
    "--cluster", metavar="NAME", shell_complete=complete_clusters, help="Only the connectors of this Connect cluster."
)
@option("--dry-run", is_flag=True, help="Show every changed line and write nothing.")
@option("--allow-python", is_flag=True, help="Run spec programs in the folder, to know what they define.")
@global_options
@pass_session
def pull(
    session: Session, *, names: tuple[str, ...], folder: Path, cluster: str | None, dry_run: bool, allow_python: bool
) -> None:
    """Write what runs into spec files.

    A connector that no file defines gets a file of its own; in other files only the values that differ are changed.
    Secrets are never written: a reference stands for each.
    """
    from seamark.specs.pull import apply_pull, read_pull  # noqa: PLC0415

    with session.fleet() as fleet:
        found = read_pull(fleet, folder, environ=os.environ, names=names, cluster=cluster, allow_python=allow_python)
        asked = 1 if cluster else len(fleet.context.connect)
    errors = tuple(found.failures.values())
    code = choose_exit_code(errors, all_failed=len(errors) >= asked)
    if not code and found.skipped:
        code = PartialError.exit_code
    if not dry_run:
        apply_pull(found)
    session.give(Answer(build_pull_view(found, with_diff=dry_run), errors, code))
