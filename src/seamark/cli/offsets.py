"""`seamark offsets`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from seamark.cli.answer import Answer, build_answer, choose_exit_code
from seamark.cli.complete import complete_connectors
from seamark.cli.main import without_collector
from seamark.cli.offset_changes import copy, forget, import_offsets, mend, move, purge, relocate, say_written, skip
from seamark.cli.options import global_options, option, pass_session, show_command
from seamark.cli.session import Session
from seamark.errors import SeamarkError
from seamark.offsets.list_views import build_check_view, build_comparison_view, build_history_view, build_orphans_view
from seamark.offsets.views import build_offsets_view

if TYPE_CHECKING:
    from seamark.fleet import Fleet


@click.group
def offsets() -> None:
    """Look at reading positions, back them up, and move them."""


for command in (move, forget, import_offsets, copy, relocate, purge, mend, skip):
    offsets.add_command(command)


@offsets.command("show")
@click.argument("owner", shell_complete=complete_connectors)
@option(
    "--route",
    type=click.Choice(["rest", "store"]),
    help="Ask Connect's REST API alone, or the store alone. Without it the store, and REST beside it.",
)
@option("--raw", is_flag=True, help="Show every record with its bytes, also those that are nobody's.")
@global_options
@pass_session
def show_offsets(session: Session, *, owner: str, route: str | None, raw: bool) -> None:
    """Show what OWNER remembers: a connector NAME or CLUSTER/NAME, group/NAME or pipeline/NAME.

    Offsets are read where they lie, with the record each comes from. What is odd about them is named, and what REST
    says where it differs.
    """
    with session.fleet() as fleet:
        owned = fleet.offsets.of(owner, route=route)
        session.show(Answer(build_offsets_view(owned, raw=raw, now=session.now())))


@offsets.command("export")
@click.argument("owners", nargs=-1, metavar="[OWNER]...", shell_complete=complete_connectors)
@option("--all", "everything", is_flag=True, help="Everything that the Connect clusters of the context hold.")
@option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write to this new file, readable by you alone, instead of standard output.",
)
@global_options
@pass_session
def export_offsets(session: Session, *, owners: tuple[str, ...], everything: bool, out: Path | None) -> None:
    """Write offsets with the bytes behind them, as a backup.

    A file that is there is never replaced. What could not be read is named in the export, and the exit code is 3.
    """
    from seamark.offsets.read.export_file import refuse_existing, render_export, write_export  # noqa: PLC0415

    if out is not None:
        refuse_existing(out)
    with without_collector():
        with session.fleet() as fleet:
            export = fleet.offsets.export(owners, everything=everything)
        if out is None:
            session.out.write(render_export(export))
        else:
            write_export(export, out)
    reporter = session.reporter
    for finding in export.findings:
        whose = f"{finding.connector}: " if finding.connector else ""
        reporter.note(f"{finding.anomaly.value}: {whose}{finding.message}")
    if out is not None:
        reporter.note(say_written(export, out))
    errors = tuple(export.failures.values())
    for error in errors:
        reporter.fail(error)
    session.exit_code = choose_exit_code(errors, all_failed=not export.owners)


@offsets.command("verify")
@click.argument("file", type=click.Path(path_type=Path))
@global_options
@pass_session
def verify_export(session: Session, file: Path) -> None:
    """Look whether an export is as it was written, and its offsets are what its bytes say. No server is asked."""
    from seamark.offsets.read.export_file import check_export  # noqa: PLC0415

    found = check_export(file)
    errors: tuple[SeamarkError, ...] = ()
    if found.problems:
        errors = (SeamarkError(f"{file} is not as it was written", hint="take another copy of the export"),)
    session.show(Answer(build_check_view(found), errors, exit_code=1 if errors else 0))


@offsets.command("history")
@click.argument("owner", shell_complete=complete_connectors)
@option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the newest N writes.")
@show_command
def show_history(fleet: Fleet, *, owner: str, limit: int | None) -> Answer:
    """Show every write of a connector's offsets that its topic still holds, the oldest first.

    Compaction takes what was overwritten, in its own time: min.compaction.lag.ms of the topic keeps it longer.
    """
    entries = fleet.offsets.history(owner)
    shown = entries if limit is None else entries[-limit:]
    return Answer(build_history_view(owner, shown))


@offsets.command("diff")
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path), required=False)
@option("--detailed-exitcode", is_flag=True, help="End with 2 where something differs.")
@global_options
@pass_session
def diff_offsets(session: Session, *, before: Path, after: Path | None, detailed_exitcode: bool) -> None:
    """Compare two exports, or an export with what is held now.

    BEFORE and AFTER are files of offsets export or of connect-offsets. Without AFTER the same owners are read anew.
    """
    if after is not None:
        from seamark.offsets.read.export import build_comparison, read_side  # noqa: PLC0415

        found = build_comparison(read_side(before), read_side(after), names=(str(before), str(after)))
    else:
        with session.fleet() as fleet:
            found = fleet.offsets.compare(before)
    code = 2 if detailed_exitcode and found.differences else 0
    session.show(Answer(build_comparison_view(found), exit_code=code))


@offsets.command("orphans")
@global_options
@pass_session
def list_orphans(session: Session) -> None:
    """List offsets whose connector is gone, the oldest first. A connector of the same name would take them up."""
    with session.fleet() as fleet:
        reading = fleet.offsets.orphans()
        view = build_orphans_view(reading, now=session.now())
        session.show(build_answer(view, reading.failures, asked=len(fleet.context.connect)))
