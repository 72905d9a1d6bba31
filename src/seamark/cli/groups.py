"""`seamark groups`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from seamark.cli.answer import Answer, add_missing, build_answer, pick_named
from seamark.cli.complete import complete_groups
from seamark.cli.confirm import change_command
from seamark.cli.options import global_options, option, pass_session, show_command
from seamark.cli.session import Session
from seamark.cli.watch import WatchOptions, show_answer, watch_command, watch_options
from seamark.core.readings import Reading
from seamark.groups.views import build_group_view, build_groups_view, build_lag_view
from seamark.offsets.exports import SourceLag
from seamark.offsets.views import build_source_lag_view

if TYPE_CHECKING:
    from seamark.changes.plan import PlannedChange
    from seamark.fleet import Fleet


@click.group
def groups() -> None:
    """Look at consumer groups, and move them."""


@groups.command("list")
@click.argument("names", nargs=-1, metavar="[NAME|GLOB]...", shell_complete=complete_groups)
@watch_command
def list_groups(fleet: Fleet, *, names: tuple[str, ...]) -> Answer:
    """List consumer groups, and whose they are. Share groups are listed too."""
    reading = fleet.groups.all()
    rows = pick_named(reading.items, names)
    asked = len(reading.items) + len(reading.failures)
    answer = build_answer(build_groups_view(reading, rows), reading.failures, asked=asked)
    return add_missing(answer, {group.name for group in reading.items}, names, noun="group")


@groups.command("show")
@click.argument("name", shell_complete=complete_groups)
@show_command
def show_group(fleet: Fleet, name: str) -> Answer:
    """Show one group: its members, its positions, and how far it is behind."""
    return Answer(build_group_view(fleet.groups.one(name)))


@groups.command("move")
@click.argument("name", shell_complete=complete_groups)
@option("--to", metavar="PLACE", help="earliest, latest, an offset, or a time as 2026-11-14T12:00:00Z.")
@option("--back", metavar="TIME", help="So long before now, as 90s, 1h or 2d.")
@option("--shift", type=int, metavar="N", help="N records on, or back where N is negative.")
@option("--from", "source", metavar="FILE|GROUP", help="Where another group stands, or an export says.")
@option("--topic", "topics", multiple=True, metavar="T[:0,1]", help="Only this topic, or these partitions of it.")
@change_command
def move_group(
    fleet: Fleet,
    *,
    name: str,
    to: str | None,
    back: str | None,
    shift: int | None,
    source: str | None,
    topics: tuple[str, ...],
) -> PlannedChange:
    """Give a group that nobody is in other positions; the plan counts what is read again or skipped.

    Without --topic it is moved wherever it has committed. Positions stay within the log.
    """
    return fleet.groups.move(name, to=to, back=back, shift=shift, source=_find_source(source), topics=topics)


@groups.command("delete")
@click.argument("name", shell_complete=complete_groups)
@change_command
def delete_group(fleet: Fleet, *, name: str) -> PlannedChange:
    """Delete a group that nobody is in, with all that it has committed. Undo commits the same again."""
    return fleet.groups.delete(name)


def _find_source(text: str | None) -> str | Path | None:
    """Return a path for an existing file or an unambiguous path, else the name of a group."""
    if text is None:
        return None
    path = Path(text).expanduser()
    return path if path.is_file() or "/" in text or text.endswith(".csv") else text


def _read_sources(reading: Reading[SourceLag]) -> Answer:
    asked = len(reading.items) + len(reading.failures)
    return build_answer(build_source_lag_view(reading), reading.failures, asked=asked)


# A trend has this many bars; more readings would be merged.
_MOST_READINGS = 60


@click.command
@option("--sources", is_flag=True, help="Sources instead: rows and bytes that they have not read, by their databases.")
@watch_options
@global_options
@pass_session
def lag(session: Session, watching: WatchOptions, *, sources: bool) -> None:
    """Show how far every group and sink is behind, or with --sources every source.

    In records, the worst first, and how long the next of them has been there. With --watch also as a trend. What a
    source has not read is counted in the database that the context names for it; a count that takes too long is
    cancelled there and becomes an estimate.
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
