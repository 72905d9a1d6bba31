"""Where readers go on in the target of a copy, as people and `groups move --from FILE` read it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from seamark.copies.cutover.copy_reader import CarriedReader
from seamark.report.listing import Column, Listing, View
from seamark.report.text import Line, line


@dataclass(frozen=True, slots=True)
class CarriedPosition:
    """One group's place in one partition."""

    group: str
    topic: str
    partition: int
    offset: int


_LISTING: Listing[CarriedPosition] = Listing(
    kind="CopyReaders",
    noun="position",
    name=lambda row: row.group,
    columns=(
        Column("group", "GROUP", lambda row: row.group),
        Column("topic", "TOPIC", lambda row: row.topic),
        Column("partition", "PARTITION", lambda row: row.partition, right=True),
        Column("offset", "OFFSET", lambda row: row.offset, right=True),
    ),
)


def build_readers_view(readers: Mapping[str, CarriedReader], topic: str) -> View[CarriedPosition]:
    """The positions for every output format; as csv it is what `groups move --from` takes."""
    rows = [
        CarriedPosition(group, topic, partition, offset)
        for group, reader in sorted(readers.items())
        for partition, offset in sorted(reader.offsets.items())
    ]
    return View(
        _LISTING,
        rows,
        body=lambda: {"items": [_build_item(group, reader, topic) for group, reader in sorted(readers.items())]},
        lines=lambda screen: [*_LISTING.build_lines(rows, screen), *_say(readers)],
        empty="no group has a position in the source",
    )


def _build_item(group: str, reader: CarriedReader, topic: str) -> dict[str, Any]:
    offsets = {str(partition): offset for partition, offset in sorted(reader.offsets.items())}
    return {"group": group, "topic": topic, "offsets": offsets, **reader.to_dict()}


def _say(readers: Mapping[str, CarriedReader]) -> Iterator[Line]:
    for group, reader in sorted(readers.items()):
        debris = f"; {reader.debris} offsets ahead hold what was taken back" if reader.debris else ""
        yield line(f"{group}: {reader.to_read} records to read, {reader.replay_words}{debris}")
