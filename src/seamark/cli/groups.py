"""`seamark groups`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from seamark.cli.answer import Answer, add_missing, build_answer, pick_named
from seamark.cli.complete import complete_groups
from seamark.cli.confirm import change_command
from seamark.cli.offset_changes import move_options, topic_option
from seamark.cli.options import global_options, option, pass_session, show_command
from seamark.cli.session import Session
from seamark.cli.tree import command, group
from seamark.cli.watch import WatchOptions, show_answer, watch_command, watch_options
from seamark.core.readings import Reading
from seamark.groups.targets import is_pattern
from seamark.groups.views import build_group_view, build_groups_view, build_lag_view
from seamark.offsets.exports import SourceLag
from seamark.offsets.views import build_source_lag_view

if TYPE_CHECKING:
    from seamark.changes.plan import PlannedChange
    from seamark.fleet import Fleet


@group(
    {
        "reset": "groups move",
        "forget": "groups delete",
        "delete-offsets": "offsets reset group/",
        "offset-delete": "offsets reset group/",
    }
)
def groups() -> None:
    """Inspect and change consumer groups."""


@groups.command("list", examples=["seamark groups list", "seamark groups list 'connect-*'"])
@click.argument("names", nargs=-1, metavar="[NAME|GLOB]...", shell_complete=complete_groups)
@watch_command
def list_groups(fleet: Fleet, *, names: tuple[str, ...]) -> Answer:
    """List consumer groups and their connectors."""
    reading = fleet.groups.list()
    rows = pick_named(reading.items, names)
    asked = len(reading.items) + len(reading.failures)
    answer = build_answer(build_groups_view(reading, rows), reading.failures, asked=asked)
    return add_missing(answer, {group.name for group in reading.items}, names, noun="group")


@groups.command("show", examples=["seamark groups show billing", "seamark groups show billing -o csv"])
@click.argument("name", shell_complete=complete_groups)
@show_command
def show_group(fleet: Fleet, name: str) -> Answer:
    """Show members, committed offsets and lag of a group."""
    return Answer(build_group_view(fleet.groups.get(name)))


@groups.command(
    "export", examples=["seamark groups export billing > offsets.csv", "seamark groups export 'billing-*' payments"]
)
@click.argument("names", nargs=-1, required=True, metavar="NAME|GLOB...", shell_complete=complete_groups)
@global_options
@pass_session
def export_groups(session: Session, *, names: tuple[str, ...]) -> None:
    """Print committed offsets as CSV for Kafka's tools.

    `seamark groups move --from-file` and `kafka-consumer-groups --reset-offsets --from-file` read it. One NAME prints
    topic,partition,offset; several names or a GLOB print group,topic,partition,offset.
    """
    from seamark.groups.csv_file import render_offset_file  # noqa: PLC0415

    with session.fleet() as fleet:
        offsets = fleet.groups.export(names)
    is_one = len(names) == 1 and not is_pattern(names[0])
    session.out.write(render_offset_file(offsets, with_group=not is_one))


@groups.command(
    "move",
    examples=[
        "seamark groups move billing --to earliest --dry-run",
        "seamark groups move billing --back 1h --topic orders:0,1",
        "seamark groups move billing --from-group billing-old",
        "seamark groups move 'billing-*' --from-file offsets.csv",
    ],
)
@click.argument("names", nargs=-1, required=True, metavar="NAME|GLOB...", shell_complete=complete_groups)
@move_options
@topic_option
@change_command
def move_group(
    fleet: Fleet, *, names: tuple[str, ...], target: dict[str, Any], topics: tuple[str, ...]
) -> PlannedChange:
    """Change the committed offsets of empty groups.

    The same as `seamark offsets move group/NAME`. The plan counts what is reprocessed or skipped. Without --topic, all
    committed offsets are changed. Offsets stay within the log. A GLOB selects groups with committed offsets, or with
    --from-file the groups that the file names.
    """
    if len(names) == 1 and not is_pattern(names[0]):
        return fleet.offsets.move(f"group/{names[0]}", topics=topics, **target)
    return fleet.groups.move(names, topics=topics, **target)


@groups.command("delete", examples=["seamark groups delete billing --dry-run"])
@click.argument("name", shell_complete=complete_groups)
@change_command
def delete_group(fleet: Fleet, *, name: str) -> PlannedChange:
    """Delete an empty group.

    Its committed offsets are deleted too. `seamark journal undo` commits them again.
    """
    return fleet.groups.delete(name)


def _read_sources(reading: Reading[SourceLag]) -> Answer:
    asked = len(reading.items) + len(reading.failures)
    return build_answer(build_source_lag_view(reading), reading.failures, asked=asked)


# A trend has this many bars; more readings would be merged.
_MOST_READINGS = 60


@command(examples=["seamark lag", "seamark lag --watch", "seamark lag --sources"])
@option("--sources", is_flag=True, help="Show sources instead: unread rows and bytes in their databases.")
@watch_options
@global_options
@pass_session
def lag(session: Session, watching: WatchOptions, *, sources: bool) -> None:
    """Show the lag of groups, sinks and sources.

    Lag is the number of records, the highest first, with the age of the next record; --watch adds a trend. The lag of
    a source is counted in the database that the context names for it. A count that takes too long is canceled there
    and becomes an estimate.
    """
    if sources:
        with session.fleet() as fleet:
            show_answer(session, lambda: _read_sources(fleet.source_lag()), watching)
        return
    trends: dict[str, list[int | None]] = {}
    with session.fleet() as fleet:

        def read() -> Answer:
            reading = fleet.lag()
            for found in reading.items:
                values = trends.setdefault(found.name, [])
                values.append(found.total)
                del values[:-_MOST_READINGS]
            asked = len(reading.items) + len(reading.failures)
            return build_answer(build_lag_view(reading, trends), reading.failures, asked=asked)

        show_answer(session, read, watching)
