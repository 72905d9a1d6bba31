"""The offsets of one owner."""

from __future__ import annotations

import dataclasses
from typing import Any

from seamark.model.offset import Offset
from seamark.model.owned import OwnedOffsets
from seamark.report.listing import Column, Listing, View
from seamark.report.text import Line, Screen, Span, Style, line
from seamark.report.views.connectors import build_heading
from seamark.report.words import render_count, render_map, render_number

_SINK_PARTITION = {"kafka_topic", "kafka_partition"}
_SINK_OFFSET = {"kafka_offset"}


def render_partition(offset: Offset) -> str:
    """The partition: `orders-3` for a sink, `key value, …` for a source."""
    partition = offset.partition
    if set(partition) == _SINK_PARTITION:
        return f"{partition['kafka_topic']}-{partition['kafka_partition']}"
    return render_map(partition)


def render_position(offset: Offset) -> str:
    """The position: the next record of a sink, `key value, …` of a source, `nothing` where none is held."""
    position = offset.offset
    if position is not None and set(position) == _SINK_OFFSET and isinstance(position["kafka_offset"], int):
        return render_number(position["kafka_offset"])
    return render_map(position)


LISTING: Listing[Offset] = Listing(
    kind="Offsets",
    noun="offset",
    name=render_partition,
    columns=(
        Column("partition", "PARTITION", lambda offset: dict(offset.partition), text=render_partition),
        Column(
            "offset",
            "OFFSET",
            lambda offset: None if offset.offset is None else dict(offset.offset),
            text=render_position,
        ),
    ),
)


def build_offsets_view(owned: OwnedOffsets) -> View[Offset]:
    """The offsets of an owner, how they were read, and notes on them."""
    return View(
        LISTING,
        owned.offsets,
        body=lambda: _build_body(owned),
        lines=lambda screen: _build_lines(owned, screen),
    )


def _build_body(owned: OwnedOffsets) -> dict[str, Any]:
    return {
        "route": owned.route,
        "offsets": {owned.owner: LISTING.build_items(owned.offsets)},
        "notes": list(owned.notes),
    }


def _build_lines(owned: OwnedOffsets, screen: Screen) -> list[Line]:
    count = render_count(len(owned.offsets), "offset")
    return [
        build_heading(owned.connector, count, f"through {owned.route}"),
        # A position that is cut can't be compared or copied: the terminal may wrap it instead.
        *LISTING.build_lines(owned.offsets, dataclasses.replace(screen, width=None), indent="  "),
        *(line(Span("! ", Style.WARN), note) for note in owned.notes),
    ]
