"""The CSV of kafka-consumer-groups: `topic,partition,offset`, or `group,topic,partition,offset` for several groups.

That program writes such lines with `--export` and reads them with `--from-file`, without a header and one line at a
time. It expects no group exactly where one group is named, see KIP-222 and KIP-644.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from seamark.errors import UnsupportedError, UsageError
from seamark.kafka.model import TopicPartition

# An export of a large fleet has a few hundred thousand lines.
_LARGEST_BYTES = 16 * 1024 * 1024
_SHORT_ROW, _LONG_ROW = 3, 4
_HOW = "write lines of topic,partition,offset, as kafka-consumer-groups --export writes them"
# The rows of a file without groups, which are for any one group.
_NO_GROUP = ""


@dataclass(frozen=True, slots=True)
class OffsetFile:
    """The rows of a file, by group. Rows are checked when a group is read: those of other groups don't matter."""

    path: Path
    rows: Mapping[str, tuple[tuple[int, tuple[str, ...]], ...]] = field(repr=False)

    @property
    def groups(self) -> tuple[str, ...]:
        """Return the groups that the file names; none if its rows are for any group."""
        return tuple(group for group in self.rows if group != _NO_GROUP)

    def find_offsets(self, group: str) -> dict[TopicPartition, int]:
        """Return the offsets of one group."""
        found: dict[TopicPartition, int] = {}
        for number, cells in (*self.rows.get(_NO_GROUP, ()), *self.rows.get(group, ())):
            place = f"{self.path}:{number}"
            spot, offset = _parse_row(cells, place=place)
            if spot in found:
                raise UsageError(f"duplicate topic partition {spot[0]}-{spot[1]} at {place}")
            found[spot] = offset
        return found


def read_offset_file(path: Path) -> OffsetFile:
    """Read a file of kafka-consumer-groups, or the CSV of `groups show`, whose header names the columns."""
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise UsageError(f"{path} is too large for a file of offsets", hint=_HOW)
        text = path.read_text(encoding="utf-8-sig")
        lines = list(csv.reader(text.splitlines()))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        cause = getattr(error, "strerror", None) or type(error).__name__
        raise UsageError(f"{path} can't be read", cause=cause, hint=_HOW) from None
    if text.lstrip().startswith("{"):
        raise UsageError(
            f"{path} is JSON; groups that are moved together are read from CSV",
            hint=f"run seamark offsets import {path} group/NAME…",
        )
    rows: dict[str, list[tuple[int, tuple[str, ...]]]] = {}
    columns: list[int] = []
    for number, row in enumerate(lines, start=1):
        if number == 1 and (columns := _find_columns(row)):
            continue
        cells = [row[column] for column in columns if column < len(row)] if columns else row
        if any(cell.strip() for cell in cells):
            # The name of a group may begin or end with a blank.
            group, *rest = cells if len(cells) == _LONG_ROW else (_NO_GROUP, *cells)
            rows.setdefault(group, []).append((number, tuple(cell.strip() for cell in rest)))
    return OffsetFile(path, {group: tuple(found) for group, found in rows.items()})


def render_offset_file(offsets: Mapping[str, Mapping[TopicPartition, int]], *, with_group: bool) -> str:
    """Return the offsets of groups as kafka-consumer-groups reads them.

    Raises:
        UnsupportedError: that program can't read a group whose name has a line break or another control character.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for group, found in sorted(offsets.items()):
        if with_group and not group.isprintable():
            raise UnsupportedError(
                f"group {group!r} can't be exported as CSV",
                cause="its name has characters that kafka-consumer-groups can't read from a file",
                hint="use seamark offsets export group/NAME",
            )
        owner = (group,) if with_group else ()
        writer.writerows((*owner, topic, number, at) for (topic, number), at in sorted(found.items()))
    return out.getvalue()


def _find_columns(cells: Sequence[str]) -> list[int]:
    """Return the column indexes if this is a header line, as `seamark groups show -o csv` writes it."""
    titles = [cell.strip().lower() for cell in cells]
    if not {"topic", "partition", "offset"} <= {*titles}:
        return []
    return [titles.index(title) for title in ("group", "topic", "partition", "offset") if title in titles]


def _parse_row(cells: Sequence[str], *, place: str) -> tuple[TopicPartition, int]:
    numbers = cells[1:]
    if len(cells) != _SHORT_ROW or not all(cell.isascii() and cell.isdecimal() for cell in numbers):
        raise UsageError(f"invalid offset at {place}", hint=_HOW)
    return (cells[0], int(numbers[0])), int(numbers[1])
