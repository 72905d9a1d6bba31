"""`seamark land compact`."""

from __future__ import annotations

from pathlib import Path

import click

from seamark.cli.answer import Answer
from seamark.cli.confirm import confirm, consent_options
from seamark.cli.options import global_options, option, pass_session
from seamark.cli.session import Session
from seamark.cli.spec_options import file_options
from seamark.report.words import render_number


@click.command("compact")
@click.argument("name")
@file_options(required=False)
@option("--dry-run", is_flag=True, help="Show the files of each date, and change nothing.")
@consent_options
@global_options
@pass_session
def compact_landing(
    session: Session, *, name: str, file: tuple[Path, ...], allow_python: bool, dry_run: bool, yes: bool
) -> None:
    """Write small files of a lake's table together, date by date. Rows and offsets stay as they are.

    A landing of it may be under way. It is done on this machine, and committed as one change of the table. The old
    files stay for those who read them, until Delta's VACUUM.
    """
    from seamark.pipelines.compaction import build_files_view, compact_table, list_table_files  # noqa: PLC0415

    with session.fleet() as fleet:
        (declared,) = fleet.landings.declared(file, names=[name], allow_python=allow_python)
        before = list_table_files(declared)
        session.give(Answer(build_files_view(before)))
        if dry_run:
            return
        if all(part.files <= part.fewest for part in before):
            session.reporter.note("there is nothing to write together")
            return
        is_protected = fleet.context.protected
        confirm(session, yes=yes, word=name if is_protected else "yes", is_protected=is_protected)
        removed, added = compact_table(declared, fleet.access)
        session.reporter.note(f"{render_number(removed)} files became {render_number(added)}")
