"""`seamark offsets import|move|reset|copy|restore|skip|repair|purge|relocate`."""

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
from seamark.cli.options import Duration, F, Number, build_options, global_options, option, pass_session
from seamark.cli.selection import find_labeled_owners, label_option
from seamark.cli.session import Session
from seamark.cli.tree import command
from seamark.core.refs import parse_subject
from seamark.errors import UsageError
from seamark.report.words import render_count

if TYPE_CHECKING:
    from seamark.changes.plan import PlannedChange
    from seamark.dead_letters.service import Search
    from seamark.fleet import Fleet
    from seamark.offsets.exports import OffsetExport
    from seamark.offsets.model import Tolerance


partition_option = option(
    "--partition",
    "partitions",
    multiple=True,
    metavar="NAME|JSON",
    help="Only this source partition: a table, a file, or fields as JSON.",
)
topic_option = option(
    "--topic",
    "topics",
    multiple=True,
    metavar="T[:0,1]",
    help="Only this topic, or these partitions of it; repeatable.",
)
assume_down_option = option(
    "--assume-worker-down",
    is_flag=True,
    help="Continue if a worker is unreachable. First stop that worker.",
)
progress_option = option(
    "--progress-timeout",
    type=Duration(),
    metavar="DURATION",
    help="Wait for the first new offset; 0s doesn't wait. Default: at most 15 s.",
)


@command(
    "skip",
    examples=[
        "seamark offsets skip log-guild --dry-run",
        "seamark offsets skip log-guild --at orders-3@123 --dlq-topic orders-dlq",
    ],
)
@click.argument("owner", shell_complete=complete_connectors)
@option("--at", metavar="TOPIC-PARTITION@OFFSET", help="The record, if you know it: orders-3@123.")
@option(
    "--dlq-topic",
    metavar="TOPIC",
    help="The dead letter queue. Default: the sink's own, or NAME-dlq.",
)
@option(
    "--temporary-config",
    "temporary",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a config during the search, such as flush.size=1; repeatable.",
)
@option("--show-value", is_flag=True, help="Show the first bytes of the value, and the error message.")
@assume_down_option
@change_options
@global_options
@pass_session
def skip(
    session: Session,
    *,
    owner: str,
    at: str | None,
    dlq_topic: str | None,
    temporary: tuple[str, ...],
    show_value: bool,
    assume_worker_down: bool,
    how: ChangeOptions,
) -> None:
    """Skip the record a failed sink can't process.

    seamark finds the record by its bytes, by the task's trace, or by running the sink with one record at a time.
    Records before it are delivered. The record itself is sent to a dead letter queue with its offset and the error.
    """
    from seamark.kafka.model import parse_place  # noqa: PLC0415

    lend = _parse_temporary(temporary)
    with session.fleet() as fleet:
        poison = fleet.skips.find(owner, at=None if at is None else parse_place(at))
        if poison is None:
            search = fleet.skips.search(owner, lend=lend)
            if not _carry_out_search(session, fleet, search, how):
                return
            poison = search.read_poison()
        planned = fleet.skips.plan(
            owner, poison, park=dlq_topic, lend=lend, assume_worker_down=assume_worker_down, show=show_value
        )
        confirm_and_apply(session, fleet, planned, how)


def _carry_out_search(session: Session, fleet: Fleet, search: Search, how: ChangeOptions) -> bool:
    """Move the sink to the record. Return False if nothing was tried, or the search did not complete."""
    if how.dry_run or how.out is not None:
        confirm_and_apply(session, fleet, search.planned, how)
        return False
    show_plan(session, search.planned, is_preview=False)
    word = confirm_plan(session, fleet, search.planned, yes=how.yes)
    if session.output.is_text:
        return run_change(session, lambda progress: fleet.apply(search.planned, progress, confirm=word)).is_done
    # A program gets one document: that of the change that skips the record.
    result = fleet.apply(search.planned, StepLines(session), confirm=word)
    errors, session.exit_code = build_errors(result)
    for error in errors:
        session.reporter.fail(error)
    return result.is_done


def _parse_temporary(temporary: tuple[str, ...]) -> dict[str, str]:
    pairs = [text.partition("=") for text in temporary]
    if wrong := [key for key, sign, _ in pairs if not sign or not key.strip()]:
        raise UsageError(
            f"invalid value {wrong[0]!r} for --temporary-config: expected KEY=VALUE",
            hint="write --temporary-config flush.size=1",
        )
    return {key.strip(): value.strip() for key, _, value in pairs}


def _build_safety(tolerance: str | None, progress_timeout: float | None, *, assume_worker_down: bool) -> dict[str, Any]:
    return {
        "tolerance": _parse_tolerance(tolerance),
        "assume_worker_down": assume_worker_down,
        "wait_seconds": progress_timeout,
    }


safety_options = build_options(
    progress_option,
    assume_down_option,
    option(
        "--tolerance",
        metavar="N|N%",
        help="Allowed difference from the plan's counts. Default: 10%, at least 1,000 rows or records or 1 MiB.",
    ),
    into="safety",
    build=_build_safety,
)


def _choose_source(from_file: Path | None, from_group: str | None) -> Path | str | None:
    if from_file is not None and from_group is not None:
        raise UsageError("pass exactly one of --to, --back, --shift, --from-file, --from-group")
    return from_file or from_group


def _build_move(
    to: str | None, back: str | None, shift: int | None, from_file: Path | None, from_group: str | None
) -> dict[str, Any]:
    return {"to": to, "back": back, "shift": shift, "source": _choose_source(from_file, from_group)}


# `offsets move` and `groups move` have the same options.
move_options = build_options(
    option("--to", metavar="LOCATION", help="earliest, latest, current, an offset, a time, or -1h (before now)."),
    option("--back", metavar="DURATION", help="Move back by DURATION (90s, 2d, PT1H) of record time."),
    option("--shift", type=Number(), metavar="N", help="Move by N records, bytes or IDs; back if negative."),
    option(
        "--from-file",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Use the offsets of an export.",
    ),
    option("--from-group", metavar="GROUP", help="Use the committed offsets of another group."),
    into="target",
    build=_build_move,
)


@command(
    "move",
    examples=[
        "seamark offsets move log-guild --to 2026-11-14T12:00:00Z --dry-run",
        "seamark offsets move log-guild --back 1h",
        "seamark offsets move group/billing --to earliest --topic orders:0,1",
    ],
)
@click.argument("owner", shell_complete=complete_connectors)
@move_options
@partition_option
@topic_option
@safety_options
@change_command
def move(
    fleet: Fleet,
    *,
    owner: str,
    target: dict[str, Any],
    partitions: tuple[str, ...],
    topics: tuple[str, ...],
    safety: dict[str, Any],
) -> PlannedChange:
    """Change the offsets OWNER resumes from.

    OWNER is a connector NAME or CLUSTER/NAME, group/NAME or pipeline/NAME. The plan counts what is reprocessed or
    skipped. A connector is stopped and restarted; a group must be empty.
    """
    return fleet.offsets.move(owner, partitions=partitions, topics=topics, **target, **safety)


@command(
    "restore",
    examples=[
        "seamark offsets restore log-guild --at 2026-11-14T12:00:00Z --dry-run",
        "seamark offsets restore --all --at 2026-11-14T12:00:00Z --skip-unknown",
    ],
)
@click.argument("owners", nargs=-1, metavar="[OWNER|GLOB]...", shell_complete=complete_connectors)
@option("--at", required=True, metavar="TIME", help="The point in time, such as 2026-11-14T12:00:00Z.")
@option("--all", "everything", is_flag=True, help="Every connector of the context.")
@option(
    "--exports",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="PATH",
    help="Use this export, or a folder of exports, as evidence; repeatable.",
)
@option("--by-record-time", is_flag=True, help="Without evidence, move a sink to the first record of that time.")
@option("--skip-unknown", is_flag=True, help="Omit owners without evidence instead of refusing the plan.")
@label_option
@partition_option
@topic_option
@safety_options
@change_command
def restore(
    fleet: Fleet,
    *,
    at: str,
    owners: tuple[str, ...],
    label: tuple[str, ...],
    partitions: tuple[str, ...],
    topics: tuple[str, ...],
    safety: dict[str, Any],
    **evidence: Any,
) -> PlannedChange:
    """Restore the offsets owners had at a time.

    OWNER is a connector NAME or CLUSTER/NAME, or group/NAME. seamark determines the offsets of that time from the
    offsets topics, the journal and exports. If it has no evidence for an owner, it refuses the plan.
    """
    owners = find_labeled_owners(fleet, owners, label, everything=evidence["everything"])
    return fleet.offsets.restore(at, owners, partitions=(*partitions, *topics), **evidence, **safety)


@command("reset", examples=["seamark offsets reset log-guild --dry-run"])
@click.argument("owner", shell_complete=complete_connectors)
@partition_option
@topic_option
@safety_options
@change_command
def reset(
    fleet: Fleet, *, owner: str, partitions: tuple[str, ...], topics: tuple[str, ...], safety: dict[str, Any]
) -> PlannedChange:
    """Delete the offsets of OWNER.

    A source starts from its beginning; a sink starts where its auto.offset.reset says.
    """
    return fleet.offsets.reset(owner, partitions=partitions, topics=topics, **safety)


@command(
    "import",
    examples=["seamark offsets import backup.json --dry-run", "seamark offsets import backup.json log-guild"],
)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("owners", nargs=-1, metavar="[OWNER]...")
@safety_options
@change_command
def import_offsets(fleet: Fleet, *, file: Path, owners: tuple[str, ...], safety: dict[str, Any]) -> PlannedChange:
    """Set the offsets of owners from an export.

    FILE is an export of seamark, or the JSON of connect-offsets. Without OWNER, all owners of the file are changed.
    Partitions that the file doesn't name stay as they are.
    """
    return fleet.offsets.import_file(file, owners=owners, **safety)


@command("copy", examples=["seamark offsets copy log-guild log-guild-2 --dry-run"])
@click.argument("source", metavar="FROM", shell_complete=complete_connectors)
@click.argument("target", metavar="TO", shell_complete=complete_connectors)
@safety_options
@change_command
def copy(fleet: Fleet, *, source: str, target: str, safety: dict[str, Any]) -> PlannedChange:
    """Copy the offsets of one owner to another.

    A file, an alias or a prefix in the source partitions is replaced by that of TO.
    """
    return fleet.offsets.copy(source, target, **safety)


def _parse_tolerance(text: str | None) -> Tolerance | None:
    if text is None:
        return None
    from seamark.offsets.model import parse_tolerance  # noqa: PLC0415

    try:
        return parse_tolerance(text)
    except ValueError:
        raise UsageError(
            f"invalid value {text!r} for --tolerance: expected a number or a percentage",
            hint="write --tolerance 1000 or --tolerance 10%",
        ) from None


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


@command(
    "repair",
    examples=[
        "seamark offsets repair log-guild --prefer newest --dry-run",
        "seamark offsets repair --all --prefer newest",
    ],
)
@click.argument("owners", nargs=-1, metavar="[OWNER]...", shell_complete=complete_connectors)
@option("--all", "everything", is_flag=True, help="All sources whose records have findings.")
@option(
    "--prefer",
    default="",
    metavar="newest|LOCATION",
    help="The value to keep if records differ: the newest, or connect-offsets-3@117.",
)
@_removed("--clean")
@_removed("--only")
@safety_options
@change_command
def repair(
    fleet: Fleet,
    *,
    owners: tuple[str, ...],
    everything: bool,
    prefer: str,
    safety: dict[str, Any],
) -> PlannedChange:
    """Repair the offset records of sources.

    All encodings of a key that a task may read, and all misplaced records of it, get the same value. The plan shows
    each record. The connector is stopped and restarted.
    """
    return fleet.offsets.repair(owners, everything=everything, take=prefer, **safety)


@command(
    "purge",
    examples=["seamark offsets purge old-guild --dry-run", "seamark offsets purge --all --older-than 30d"],
)
@click.argument("owners", nargs=-1, metavar="[OWNER]...")
@option("--all", "everything", is_flag=True, help="Everything that `offsets orphans` lists.")
@option("--older-than", type=Duration(), metavar="DURATION", help="Only offsets last written longer ago, such as 30d.")
@option(
    "--backup",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Export the offsets to this new file first.",
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
    """Delete orphaned offsets.

    OWNER is NAME or CLUSTER/NAME of a connector that doesn't exist, as `offsets orphans` lists them. A connector that
    is created with that name later starts from its beginning. `seamark journal undo` restores every record.
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


@command(
    "relocate",
    examples=[
        "seamark offsets relocate log-guild --topic log-guild-offsets --dry-run",
        "seamark offsets relocate log-guild --worker-topic",
    ],
)
@click.argument("owner", shell_complete=complete_connectors)
@option("--topic", metavar="TOPIC", help="The new offsets topic; created if it doesn't exist.")
@option("--worker-topic", is_flag=True, help="The offsets topic of its workers.")
@assume_down_option
@progress_option
@change_options
@global_options
@pass_session
def relocate(
    session: Session,
    *,
    owner: str,
    topic: str | None,
    worker_topic: bool,
    assume_worker_down: bool,
    progress_timeout: float | None,
    how: ChangeOptions,
) -> None:
    """Move the offsets of a source to another topic.

    The connector is stopped, its records are copied byte for byte and verified, its config gets the topic
    (offsets.storage.topic), and it resumes. It reprocesses nothing.
    """
    if (topic is None) is not worker_topic:
        raise UsageError("pass exactly one of --topic and --worker-topic")
    with session.fleet() as fleet:
        planned = fleet.offsets.relocate(
            owner, topic, assume_worker_down=assume_worker_down, wait_seconds=progress_timeout
        )
        confirm_and_apply(session, fleet, planned, how)
