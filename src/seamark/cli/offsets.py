"""`seamark offsets`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from seamark.cli.answer import Answer, build_answer, choose_exit_code
from seamark.cli.complete import complete_connectors
from seamark.cli.main import without_collector
from seamark.cli.offset_changes import (
    copy,
    import_offsets,
    move,
    purge,
    relocate,
    repair,
    reset,
    restore,
    say_written,
    skip,
)
from seamark.cli.options import Number, global_options, option, pass_session, show_command
from seamark.cli.selection import find_labeled_owners, label_option
from seamark.cli.session import Session
from seamark.cli.tree import group
from seamark.errors import SeamarkError
from seamark.offsets.list_views import build_check_view, build_comparison_view, build_history_view, build_orphans_view
from seamark.offsets.model import OffsetAnomaly
from seamark.offsets.views import build_offsets_view

if TYPE_CHECKING:
    from seamark.fleet import Fleet


_FINDINGS = ["orphaned", *(anomaly.value for anomaly in OffsetAnomaly if not anomaly.value.startswith("rest-"))]


@group(
    {
        "forget": "offsets reset",
        "mend": "offsets repair",
        "fix": "offsets repair",
        "clean": "offsets purge",
        "backup": "offsets export",
        "rollback": "offsets restore",
    }
)
def offsets() -> None:
    """Inspect, back up and change offsets."""


@offsets.command("show", examples=["seamark offsets show log-guild", "seamark offsets show group/billing -o json"])
@click.argument("owner", shell_complete=complete_connectors)
@option(
    "--route",
    type=click.Choice(["rest", "store"]),
    help="Read from Connect's REST API or from the store only. Default: both.",
)
@option("--raw", is_flag=True, help="Show every record with its bytes.")
@global_options
@pass_session
def show_offsets(session: Session, *, owner: str, route: str | None, raw: bool) -> None:
    """Show the offsets of a connector, group or pipeline.

    OWNER is a connector NAME or CLUSTER/NAME, group/NAME or pipeline/NAME. Offsets are read from their store, each with
    the record that holds it. Findings are listed, and differences from Connect's REST API.
    """
    with session.fleet() as fleet:
        owned = fleet.offsets.get(owner, route=route)
        session.show(Answer(build_offsets_view(owned, raw=raw, now=session.now())))


@offsets.command(
    "list",
    examples=[
        "seamark offsets list",
        "seamark offsets list 'log-*' group/billing -o json",
        "seamark offsets list --finding orphaned",
    ],
)
@click.argument("owners", nargs=-1, metavar="[OWNER|GLOB]...", shell_complete=complete_connectors)
@option(
    "--finding",
    type=click.Choice(_FINDINGS),
    metavar="NAME",
    help="Only offsets with this finding, such as orphaned or misplaced.",
)
@label_option
@global_options
@pass_session
def list_offsets(session: Session, *, owners: tuple[str, ...], finding: str | None, label: tuple[str, ...]) -> None:
    """List the offsets of every owner.

    Sources, sinks, other groups and pipelines, each offset with its store, its age and its findings. An offsets topic
    is read once for all connectors. OWNER is a connector, group/NAME or pipeline/NAME.
    """
    from seamark.offsets.list_views import build_list_view  # noqa: PLC0415

    with without_collector(), session.fleet() as fleet:
        owners = find_labeled_owners(fleet, owners, label)
        found = fleet.offsets.list(owners, finding=finding or "")
        view = build_list_view(found, now=session.now())
        session.show(build_answer(view, found.failures, asked=len(found.failures) + (1 if len(found) else 0)))


@offsets.command(
    "export", examples=["seamark offsets export --all --out backup.json", "seamark offsets export log-guild"]
)
@click.argument("owners", nargs=-1, metavar="[OWNER]...", shell_complete=complete_connectors)
@option("--all", "everything", is_flag=True, help="All owners in the Connect clusters of the context.")
@option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write to this new file, readable by you only, instead of standard output.",
)
@label_option
@global_options
@pass_session
def export_offsets(
    session: Session, *, owners: tuple[str, ...], everything: bool, out: Path | None, label: tuple[str, ...]
) -> None:
    """Export offsets with their bytes, as a backup.

    An existing file is never replaced. The export names owners that could not be read, and the exit code is 3.
    """
    from seamark.offsets.read.export_file import refuse_existing, render_export, write_export  # noqa: PLC0415

    if out is not None:
        refuse_existing(out)
    with without_collector():
        with session.fleet() as fleet:
            owners = find_labeled_owners(fleet, owners, label, everything=everything)
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


@offsets.command("verify", examples=["seamark offsets verify backup.json"])
@click.argument("file", type=click.Path(path_type=Path))
@global_options
@pass_session
def verify_export(session: Session, file: Path) -> None:
    """Verify an export file.

    Checks that the file is unchanged and that its offsets match its bytes. No server is needed.
    """
    from seamark.offsets.read.export_file import check_export  # noqa: PLC0415

    found = check_export(file)
    errors: tuple[SeamarkError, ...] = ()
    if found.problems:
        errors = (SeamarkError(f"{file} was changed after it was exported", hint="use another copy of the export"),)
    session.show(Answer(build_check_view(found), errors, exit_code=1 if errors else 0))


@offsets.command("history", examples=["seamark offsets history log-guild --limit 20"])
@click.argument("owner", shell_complete=complete_connectors)
@option("--limit", type=Number(minimum=1), metavar="N", help="Only the newest N writes.")
@show_command
def show_history(fleet: Fleet, *, owner: str, limit: int | None) -> Answer:
    """Show earlier offsets of a connector.

    Lists every write that the offsets topic still holds, oldest first. Compaction removes overwritten records; a longer
    min.compaction.lag.ms of the topic keeps them longer.
    """
    entries = fleet.offsets.history(owner)
    shown = entries if limit is None else entries[-limit:]
    return Answer(build_history_view(owner, shown))


@offsets.command("diff", examples=["seamark offsets diff backup.json", "seamark offsets diff before.json after.json"])
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path), required=False)
@option("--detailed-exitcode", is_flag=True, help="End with exit code 2 if there are differences.")
@global_options
@pass_session
def diff_offsets(session: Session, *, before: Path, after: Path | None, detailed_exitcode: bool) -> None:
    """Compare two exports, or one with current offsets.

    BEFORE and AFTER are files of `offsets export` or of connect-offsets. Without AFTER, seamark reads the current
    offsets of the same owners.
    """
    if after is not None:
        from seamark.offsets.read.export import build_comparison, read_side  # noqa: PLC0415

        found = build_comparison(read_side(before), read_side(after), names=(str(before), str(after)))
    else:
        with session.fleet() as fleet:
            found = fleet.offsets.compare(before)
    code = 2 if detailed_exitcode and found.differences else 0
    session.show(Answer(build_comparison_view(found), exit_code=code))


@offsets.command("orphans", examples=["seamark offsets orphans"])
@global_options
@pass_session
def list_orphans(session: Session) -> None:
    """List orphaned offsets, oldest first.

    Their connector doesn't exist. A new connector of the same name would resume from them.
    """
    with session.fleet() as fleet:
        reading = fleet.offsets.orphans()
        view = build_orphans_view(reading, now=session.now())
        session.show(build_answer(view, reading.failures, asked=len(fleet.context.connect)))


for found in (import_offsets, move, reset, copy, restore, skip, repair, purge, relocate):
    offsets.add_command(found)
