"""`seamark offsets move | forget | import | copy`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seamark.cli.complete import complete_connectors
from seamark.cli.confirm import (
    ChangeOptions,
    StepLines,
    build_errors,
    change_command,
    change_options,
    confirm_and_apply,
    confirm_plan,
    run_change,
    show_plan,
)
from seamark.cli.options import Duration, F, build_options, global_options, option, pass_session
from seamark.cli.session import Session
from seamark.core.refs import parse_subject
from seamark.errors import UsageError
from seamark.report.words import render_count

if TYPE_CHECKING:
    from seamark.changes.plan import PlannedChange
    from seamark.dead_letters.service import Search
    from seamark.fleet import Fleet
    from seamark.offsets.exports import OffsetExport
    from seamark.offsets.model import Tolerance


@click.command("skip")
@click.argument("owner", shell_complete=complete_connectors)
@option("--at", metavar="TOPIC-PARTITION@OFFSET", help="The record, where you know it: orders-3@123.")
@option(
    "--park",
    metavar="TOPIC",
    help="Where the record is parked. Without it the sink's own dead-letter topic, or NAME-dlq.",
)
@option(
    "--lend",
    "lent",
    multiple=True,
    metavar="KEY=VALUE",
    help="A key of its config for the time in which it takes records one by one, such as flush.size=1.",
)
@option("--show", is_flag=True, help="Show the first bytes of the record's value, and the words of the error.")
@option(
    "--accept-zombie",
    is_flag=True,
    help="Go on although a worker that ran it can't be reached. Only if you have ended that worker.",
)
@change_options
@global_options
@pass_session
def skip(
    session: Session,
    *,
    owner: str,
    at: str | None,
    park: str | None,
    lent: tuple[str, ...],
    show: bool,
    accept_zombie: bool,
    how: ChangeOptions,
) -> None:
    """Let a failed sink go on behind the one record that it can't take.

    The record is found by its bytes, by the task's trace, or by letting the sink take records one by one. All before it
    are delivered; it alone is parked in a dead-letter topic, with its place and the error.
    """
    from seamark.kafka.model import parse_place  # noqa: PLC0415

    lend = _parse_lent(lent)
    with session.fleet() as fleet:
        poison = fleet.skips.find(owner, at=None if at is None else parse_place(at))
        if poison is None:
            search = fleet.skips.search(owner, lend=lend)
            if not _carry_out_search(session, fleet, search, how):
                return
            poison = search.read_poison()
        planned = fleet.skips.plan(owner, poison, park=park, lend=lend, accept_zombies=accept_zombie, show=show)
        confirm_and_apply(session, fleet, planned, how)


def _carry_out_search(session: Session, fleet: Fleet, search: Search, how: ChangeOptions) -> bool:
    """Move the sink to the record. Return False if nothing was tried, or the search did not complete."""
    if how.dry_run or how.out is not None:
        confirm_and_apply(session, fleet, search.planned, how)
        return False
    show_plan(session, search.planned, is_data=False)
    word = confirm_plan(session, fleet, search.planned, yes=how.yes)
    if session.output.is_text:
        return run_change(session, lambda progress: fleet.apply(search.planned, progress, confirm=word)).is_done
    # A program gets one document: that of the change that skips the record.
    result = fleet.apply(search.planned, StepLines(session), confirm=word)
    errors, session.exit_code = build_errors(result)
    for error in errors:
        session.reporter.fail(error)
    return result.is_done


def _parse_lent(lent: tuple[str, ...]) -> dict[str, str]:
    pairs = [text.partition("=") for text in lent]
    if wrong := [key for key, sign, _ in pairs if not sign or not key.strip()]:
        raise UsageError(f"{wrong[0]!r} is no key with a value", hint="write --lend flush.size=1")
    return {key.strip(): value.strip() for key, _, value in pairs}


partition_option = option(
    "--partition",
    "partitions",
    multiple=True,
    metavar="NAME|JSON",
    help="Only this partition: a table, a file, TOPIC[:0,1], or some of its fields as JSON.",
)


option_accept_zombie = option(
    "--accept-zombie",
    is_flag=True,
    help="Go on although a worker that ran it can't be reached. Only if you have ended that worker.",
)
option_wait = option(
    "--wait",
    type=Duration(),
    metavar="TIME",
    help="How long to look for its first new position once it runs again; 0s for not at all. "
    "Without it as long as its workers need to store one, and at most 15s.",
)


def _build_safety(tolerance: str | None, wait: float | None, *, accept_zombie: bool) -> dict[str, Any]:
    return {"tolerance": _parse_tolerance(tolerance), "accept_zombies": accept_zombie, "wait_seconds": wait}


care_options = build_options(
    option_wait,
    option_accept_zombie,
    option(
        "--tolerance",
        metavar="N|N%",
        help="How much more than the plan says may be read again or skipped once it has stopped. "
        "Without it a tenth, and at least 1 000 rows or records or 1 MiB.",
    ),
    into="safety",
    build=_build_safety,
)


@click.command("move")
@click.argument("owners", nargs=-1, metavar="OWNER...", shell_complete=complete_connectors)
@option(
    "--to",
    metavar="PLACE",
    help="beginning, a number, a time as 2026-11-14T12:00:00Z, a JSON map; for sinks and groups earliest, latest too.",
)
@option("--back", metavar="TIME", help="So much earlier, as 90s, 1h or 2d: by the time in the data.")
@option(
    "--as-of",
    metavar="TIME",
    help="Where each of the owners stood at that time, as the offsets topics, the journal and exports tell.",
)
@option("--all", "everything", is_flag=True, help="With --as-of: every connector of the context.")
@option(
    "--exports",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="PATH",
    help="With --as-of: an export, or a folder of them, that may have seen where they stood.",
)
@option(
    "--by-record-time",
    is_flag=True,
    help="With --as-of: a sink that nobody has seen goes to the first record of that time or later.",
)
@option(
    "--skip-unknown", is_flag=True, help="With --as-of: leave out whoever nobody has seen, instead of refusing all."
)
@option("--shift", type=int, metavar="N", help="N records, bytes or ids on, or back where N is negative.")
@option(
    "--from", "source", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Where an export says."
)
@partition_option
@care_options
@change_command
def move(
    fleet: Fleet,
    *,
    owners: tuple[str, ...],
    as_of: str | None,
    partitions: tuple[str, ...],
    safety: dict[str, Any],
    **rest: Any,
) -> PlannedChange:
    """Let OWNER go on from another place: a connector NAME or CLUSTER/NAME, group/NAME or pipeline/NAME.

    The plan counts what is read again or skipped. A connector is stopped, proven to stand still, counted again,
    written, verified, and goes on. A group must be empty. With --as-of several owners, globs too, go back together.
    """
    past = {key: rest.pop(key) for key in ("everything", "exports", "by_record_time", "skip_unknown")}
    if as_of is not None and all(value is None for value in rest.values()):
        return fleet.offsets.back_to(as_of, owners, partitions=partitions, **past, **safety)
    _refuse_many(owners, past)
    return fleet.offsets.move(owners[0], as_of=as_of, partitions=partitions, **rest, **safety)


def _refuse_many(owners: tuple[str, ...], past: dict[str, Any]) -> None:
    """Raise for several owners, unless the target is a point in time."""
    if any(past.values()):
        named = ", ".join(f"--{'all' if key == 'everything' else key.replace('_', '-')}" for key in past if past[key])
        raise UsageError(f"{named} goes with --as-of alone")
    if len(owners) != 1:
        raise UsageError("say which owner is moved: exactly one", hint="--as-of alone takes several, or --all")


@click.command("forget")
@click.argument("owner", shell_complete=complete_connectors)
@partition_option
@care_options
@change_command
def forget(fleet: Fleet, *, owner: str, partitions: tuple[str, ...], safety: dict[str, Any]) -> PlannedChange:
    """Let OWNER forget its offsets, so that it begins at its beginning. Connect calls it reset."""
    return fleet.offsets.forget(owner, partitions=partitions, **safety)


@click.command("import")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("owners", nargs=-1, metavar="[OWNER]...")
@care_options
@change_command
def import_offsets(fleet: Fleet, *, file: Path, owners: tuple[str, ...], safety: dict[str, Any]) -> PlannedChange:
    """Put owners where FILE says: an export of seamark, or the JSON of connect-offsets.

    Without OWNER all of them. Partitions that the file does not name stay as they are.
    """
    return fleet.offsets.restore(file, owners=owners, **safety)


@click.command("copy")
@click.argument("source", metavar="FROM", shell_complete=complete_connectors)
@click.argument("target", metavar="TO", shell_complete=complete_connectors)
@care_options
@change_command
def copy(fleet: Fleet, *, source: str, target: str, safety: dict[str, Any]) -> PlannedChange:
    """Put TO where FROM stands. A file, an alias or a prefix in the keys becomes that of TO."""
    return fleet.offsets.copy(source, target, **safety)


def _parse_tolerance(text: str | None) -> Tolerance | None:
    if text is None:
        return None
    from seamark.offsets.model import parse_tolerance  # noqa: PLC0415

    try:
        return parse_tolerance(text)
    except ValueError:
        raise UsageError(f"{text!r} is no tolerance", hint="a number, or a share as 10%") from None


def _refuse_removed(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    del ctx
    if value:
        raise UsageError(
            f"{param.opts[0]} was removed",
            cause="seamark doesn't rewrite the log of an offsets topic that workers use",
            hint="follow docs/runbooks/offsets-topic-repartitioned.md to remove records while all workers are stopped",
        )


def _removed(name: str) -> Callable[[F], F]:
    """Build an option that only names its replacement."""
    return click.option(name, is_flag=True, hidden=True, expose_value=False, callback=_refuse_removed)


@click.command("mend")
@click.argument("owners", nargs=-1, metavar="[OWNER]...", shell_complete=complete_connectors)
@option("--all", "everything", is_flag=True, help="All sources about whose records something is odd.")
@option(
    "--take",
    default="",
    metavar="newest|PLACE",
    help="Whose value counts, where records differ: one as connect-offsets-3@117, or the newest; of copies of one key "
    "that is the one at home.",
)
@_removed("--clean")
@_removed("--only")
@care_options
@change_command
def mend(
    fleet: Fleet,
    *,
    owners: tuple[str, ...],
    everything: bool,
    take: str,
    safety: dict[str, Any],
) -> PlannedChange:
    """Put the records of a source's offsets right: several spellings of one key, copies on other partitions.

    Every spelling that a task may look for, and every copy of it, gets the same value. The plan says what each record
    will be. The connector is stopped for it and goes on.
    """
    return fleet.offsets.mend(owners, everything=everything, take=take, **safety)


@click.command("purge")
@click.argument("owners", nargs=-1, metavar="[OWNER]...")
@option("--all", "everything", is_flag=True, help="Everything that offsets orphans lists.")
@option("--older-than", type=Duration(), metavar="TIME", help="Only what was last written longer ago, as 30d.")
@option(
    "--backup",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write what is taken away to this new file first, as offsets export does. The journal keeps it too.",
)
@change_options
@global_options
@pass_session
def purge(
    session: Session,
    *,
    owners: tuple[str, ...],
    everything: bool,
    older_than: float | None,
    backup: Path | None,
    how: ChangeOptions,
) -> None:
    """Take away offsets whose connector is gone: OWNER is NAME or CLUSTER/NAME, as offsets orphans lists them.

    A connector that is created with such a name later begins at its beginning. The other keys of the topic are not
    touched. seamark journal undo puts every record back as it was.
    """
    from seamark.offsets.read.export_file import refuse_existing  # noqa: PLC0415

    if backup is not None:
        refuse_existing(backup)
    with session.fleet() as fleet:
        planned = fleet.offsets.purge(owners, everything=everything, older_than=older_than)
        if backup is not None and planned.plan.steps:
            _back_up(session, fleet, planned, backup)
        confirm_and_apply(session, fleet, planned, how)


def _back_up(session: Session, fleet: Fleet, planned: PlannedChange, file: Path) -> None:
    from seamark.offsets.read.export_file import write_export  # noqa: PLC0415

    names = {parse_subject(effect.subject).name for effect in planned.effects}
    export = fleet.offsets.export(everything=True)
    kept = replace(export, owners=tuple(one for one in export.owners if one.owner in names), findings=(), failures={})
    write_export(kept, file)
    session.reporter.note(say_written(kept, file))


def say_written(export: OffsetExport, file: Path) -> str:
    """Format what an export contains, and where it is."""
    verb = "is" if export.count == 1 else "are"
    return f"{render_count(export.count, 'offset')} of {render_count(len(export.owners), 'owner')} {verb} in {file}"


@click.command("relocate")
@click.argument("owner", shell_complete=complete_connectors)
@option("--topic", metavar="TOPIC", help="The offsets topic that it shall have; made where it is not there.")
@option("--workers", is_flag=True, help="Back to the offsets topic of its workers.")
@option_accept_zombie
@option_wait
@change_options
@global_options
@pass_session
def relocate(
    session: Session,
    *,
    owner: str,
    topic: str | None,
    workers: bool,
    accept_zombie: bool,
    wait: float | None,
    how: ChangeOptions,
) -> None:
    """Let source OWNER keep its offsets in a topic of its own, or in that of its workers again.

    It reads nothing again: it is stopped, its records are carried over to the byte and verified, then its config names
    the topic (offsets.storage.topic), and it goes on.
    """
    if (topic is None) is not workers:
        raise UsageError("say one of --topic and --workers", hint="seamark offsets relocate NAME --topic TOPIC")
    with session.fleet() as fleet:
        planned = fleet.offsets.relocate(owner, topic, accept_zombies=accept_zombie, wait_seconds=wait)
        confirm_and_apply(session, fleet, planned, how)
