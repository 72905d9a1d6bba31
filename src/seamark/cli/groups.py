"""`seamark groups`."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from seamark.cli.answer import Answer, add_missing, build_answer, pick_named
from seamark.cli.complete import complete_connectors, complete_groups
from seamark.cli.confirm import change_command
from seamark.cli.offset_changes import move_options, topic_option
from seamark.cli.options import fail_on_option, global_options, is_failing, option, pass_session, show_command
from seamark.cli.selection import find_labeled_owners, label_option
from seamark.cli.session import Session
from seamark.cli.tree import command, group
from seamark.cli.watch import WatchOptions, show_answer, watch_command, watch_options
from seamark.core.readings import Reading
from seamark.core.refs import ConnectorType
from seamark.core.time import parse_duration
from seamark.errors import UsageError
from seamark.groups.lag import LagLimit
from seamark.groups.targets import is_pattern
from seamark.groups.views import build_group_view, build_groups_view, build_lag_view
from seamark.offsets.exports import SourceLag
from seamark.offsets.views import build_source_lag_view
from seamark.report.words import parse_number

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


class LagLimitType(click.ParamType[LagLimit]):
    """The largest acceptable lag as a Click parameter: a number of records, or a duration."""

    name = "lag"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> LagLimit:
        """Return the limit. Raises a usage error that shows both formats."""
        if isinstance(value, LagLimit):
            return value
        with suppress(ValueError):
            return LagLimit(records=parse_number(str(value)))
        with suppress(ValueError):
            return LagLimit(seconds=parse_duration(str(value)))
        raise click.UsageError(
            f"invalid value {str(value)!r} for --max-lag: expected records such as 10,000, or a duration such as 5m",
            ctx,
        )


def _read_sources(reading: Reading[SourceLag]) -> Answer:
    asked = len(reading.items) + len(reading.failures)
    return build_answer(build_source_lag_view(reading), reading.failures, asked=asked)


# A trend has this many bars; more readings would be merged.
_MOST_READINGS = 60


@command(examples=["seamark lag", "seamark lag 'lake-*' group/audit --watch", "seamark lag --max-lag 5m"])
@click.argument("owners", nargs=-1, metavar="[OWNER|GLOB]...", shell_complete=complete_connectors)
@option("--sources", is_flag=True, help="Show sources instead: unread rows and bytes in their databases.")
@option(
    "--max-lag",
    type=LagLimitType(),
    metavar="N|DURATION",
    help="Exit with 1 if a lag is above N records, or a next record is older than DURATION.",
)
@fail_on_option("a comparison with --max-lag has a result")
@label_option
@watch_options
@global_options
@pass_session
def lag(
    session: Session,
    watching: WatchOptions,
    *,
    owners: tuple[str, ...],
    sources: bool,
    max_lag: LagLimit | None,
    fail_on: str | None,
    label: tuple[str, ...],
) -> None:
    """Show the lag of groups, sinks and sources.

    OWNER is a connector, group/NAME or pipeline/NAME. Lag is the number of records, the highest first, with the age of
    the next record; --watch adds a trend. For --fail-on, a lag above --max-lag is an error, and a lag that can't be
    determined is a warning. The lag of a source is counted in the database that the context names for it. A count that
    takes too long is canceled there and becomes an estimate.
    """
    if sources and (max_lag or fail_on):
        raise UsageError(
            "--max-lag and --fail-on can't be combined with --sources",
            cause="sources are counted in rows or bytes, sometimes as an estimate",
            hint="compare the numbers of: seamark lag --sources -o json",
        )
    if fail_on and max_lag is None:
        raise UsageError("--fail-on needs --max-lag", hint="pass --max-lag N or --max-lag DURATION")
    if sources:
        with session.fleet() as fleet:
            chosen = find_labeled_owners(fleet, owners, label, without=ConnectorType.SINK)
            show_answer(session, lambda: _read_sources(fleet.source_lag(chosen)), watching)
        return
    trends: dict[str, list[int | None]] = {}
    with session.fleet() as fleet:
        owners = find_labeled_owners(fleet, owners, label, without=ConnectorType.SOURCE)

        def read() -> Answer:
            reading = fleet.lag(owners)
            for found in reading.items:
                values = trends.setdefault(found.name, [])
                values.append(found.total)
                del values[:-_MOST_READINGS]
            asked = len(reading.items) + len(reading.failures)
            answer = build_answer(build_lag_view(reading, trends, limit=max_lag), reading.failures, asked=asked)
            ratings = [max_lag.rate(found) for found in reading.items] if max_lag else []
            return replace(answer, exit_code=answer.exit_code or int(is_failing(ratings, fail_on or "error")))

        show_answer(session, read, watching)
