"""Views of the offsets of one owner, with their records."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from seamark.connect.model import Connector
from seamark.connectors.views import build_heading
from seamark.core.offsets import Certainty, Offset, OffsetMap
from seamark.core.readings import Reading
from seamark.offsets.exports import SourceLag
from seamark.offsets.model import OffsetFinding, OwnerOffsets, StoredOffset, StoredRecord
from seamark.offsets.semantics.registry import find_times
from seamark.report.listing import Column, Listing, View
from seamark.report.terminal import build_failures
from seamark.report.text import Line, Screen, Span, Style, line
from seamark.report.words import build_time, render_ago, render_count, render_map, render_number, render_time

_PREFIX = {Certainty.BOUND: "at most ", Certainty.ESTIMATE: "about "}


def _say_total(found: SourceLag) -> str:
    return "-" if found.total is None else f"{_PREFIX.get(found.certainty, '')}{render_number(found.total)}"


SOURCE_LAGS: Listing[SourceLag] = Listing(
    kind="SourceLagList",
    noun="source",
    name=lambda found: found.owner,
    columns=(
        Column("owner", "SOURCE", lambda found: found.owner),
        Column("state", "STATE", lambda found: found.state),
        Column("partitions", "PARTITIONS", lambda found: len(found.partitions), right=True),
        Column("behind", "LAG", lambda found: found.total, text=_say_total, right=True),
        Column("unit", "UNIT", lambda found: found.unit),
        Column("certainty", "CERTAINTY", lambda found: found.certainty.value),
        Column("worst", "WORST", lambda found: found.worst.partition if found.worst else ""),
        Column("reason", "REASON", lambda found: found.reason),
    ),
)


def build_source_lag_view(reading: Reading[SourceLag]) -> View[SourceLag]:
    """Build the view of every source, largest lag first."""
    return View(
        SOURCE_LAGS,
        reading.items,
        body=lambda: {
            "items": SOURCE_LAGS.build_items(reading.items),
            "failures": build_failures(reading.failures),
        },
        empty="no sources",
    )


_SINK_PARTITION = {"kafka_topic", "kafka_partition"}


def render_partition(partition: OffsetMap) -> str:
    """Format the partition: `orders-3` for a sink, `key value, …` for a source."""
    if partition.keys() == _SINK_PARTITION:
        return f"{partition['kafka_topic']}-{partition['kafka_partition']}"
    return render_map(partition)


def render_position(position: OffsetMap | None, times: Mapping[str, datetime] | None = None) -> str:
    """Format the offset: the next record of a sink, `key value, …` of a source, `nothing` if there is none.

    Args:
        position: The offset.
        times: The points in time of its fields, which are added to their values.

    Returns:
        The text.
    """
    if position is not None and len(position) == 1:
        next_record = position.get("kafka_offset")
        if isinstance(next_record, int):
            return render_number(next_record)
    return render_map(position, times)


def render_bytes_of(raw: bytes | None) -> str:
    """Format raw bytes so that users can read and compare them: as text if possible, otherwise base64."""
    if raw is None:
        return "(none)"
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return f"base64:{base64.b64encode(raw).decode()}"


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One offset of the table, with its record if its store has records."""

    offset: Offset
    evidence: StoredRecord | None = None
    is_certain: bool = True
    times: Mapping[str, datetime] = dataclasses.field(default_factory=dict)


PLAIN: Listing[Row] = Listing(
    kind="Offsets",
    noun="offset",
    name=lambda row: render_partition(row.offset.partition),
    columns=(
        Column(
            "partition",
            "PARTITION",
            lambda row: dict(row.offset.partition),
            text=lambda row: render_partition(row.offset.partition),
        ),
        Column(
            "offset",
            "OFFSET",
            lambda row: None if row.offset.offset is None else dict(row.offset.offset),
            text=lambda row: render_position(row.offset.offset, row.times) + ("" if row.is_certain else " (?)"),
        ),
    ),
)


def _build_stored_listing(now: datetime) -> Listing[Row]:
    more: tuple[Column[Row], ...] = (
        Column("written", "WRITTEN", _find_time, text=lambda row: _render_age(row, now)),
        Column("record", "RECORD", lambda row: row.evidence.place if row.evidence else None),
    )
    return dataclasses.replace(PLAIN, columns=(*PLAIN.columns, *more))


def build_offsets_view(owned: OwnerOffsets, *, raw: bool = False, now: datetime | None = None) -> View[Row]:
    """Build the view of an owner's offsets, how they were read, and anomalies; with `raw` each record's bytes."""
    moment = now or datetime.now(UTC)
    if owned.stored:
        rows = [Row(found.as_offset(), found.evidence, found.is_certain) for found in owned.stored]
    else:
        rows = [Row(offset) for offset in owned.offsets]
    if (connector := owned.connector) is not None:
        rows = [dataclasses.replace(row, times=find_times(connector, row.offset)) for row in rows]
    has_records = any(row.evidence is not None and row.evidence.timestamp_ms is not None for row in rows)
    listing = _build_stored_listing(moment) if has_records else PLAIN
    return View(
        listing,
        rows,
        body=lambda: _build_body(owned, listing, rows, raw=raw),
        lines=lambda screen: _build_lines(owned, listing, rows, screen, raw=raw),
    )


def build_offset_items(connector: Connector, offsets: Sequence[Offset]) -> list[dict[str, Any]]:
    """Build offsets as Connect reports them as structured data."""
    return PLAIN.build_items(_build_rows(connector, offsets))


def build_offset_lines(connector: Connector, offsets: Sequence[Offset], screen: Screen) -> list[Line]:
    """Build the table of offsets as Connect reports them."""
    return PLAIN.build_lines(_build_rows(connector, offsets), screen)


def _build_rows(connector: Connector, offsets: Sequence[Offset]) -> list[Row]:
    return [Row(offset, times=find_times(connector, offset)) for offset in offsets]


def build_finding(finding: OffsetFinding) -> dict[str, Any]:
    """Build a finding as structured data."""
    return {
        "finding": finding.anomaly.value,
        "connector": finding.connector,
        "partition": None if finding.partition is None else dict(finding.partition),
        "message": finding.message,
        "records": [build_evidence(found) for found in finding.evidence],
    }


def build_offset(found: Offset) -> dict[str, Any]:
    """Build an offset as structured data."""
    return {"partition": dict(found.partition), "offset": None if found.offset is None else dict(found.offset)}


def build_evidence(found: StoredRecord) -> dict[str, Any]:
    """Build a record as structured data, its bytes in base64."""
    return {
        "store": found.store,
        "key": _encode(found.key),
        "value": _encode(found.value),
        "partition": found.partition,
        "offset": found.record_offset,
        "timestamp_ms": found.timestamp_ms,
        "key_verdict": str(found.key_verdict),
        "value_verdict": str(found.value_verdict),
    }


def render_finding(finding: OffsetFinding, *, raw: bool = False) -> list[Line]:
    """Format a finding: one line, with its records below, except for REST findings, whose offset is shown anyway."""
    about = f"{render_partition(finding.partition)}: " if finding.partition is not None else ""
    whose = f"{finding.connector} " if finding.connector and finding.partition is None else ""
    lines = [
        line(Span("! ", Style.WARN), Span(finding.anomaly.value, Style.STRONG), f"  {whose}{about}{finding.message}")
    ]
    if raw or not finding.anomaly.startswith("rest-"):
        lines += [line(f"    {render_record(found)}") for found in finding.evidence]
    return lines


def render_record(found: StoredRecord) -> str:
    """Format a record on one line: its location, when it was written, its bytes."""
    when = "" if found.timestamp_ms is None else f" {render_time(build_time(found.timestamp_ms))}"
    return f"{found.place}{when} {render_bytes_of(found.key)} → {render_bytes_of(found.value)}"


def _build_body(owned: OwnerOffsets, listing: Listing[Row], rows: Sequence[Row], *, raw: bool) -> dict[str, Any]:
    body: dict[str, Any] = {
        "route": owned.route,
        "stores": list(owned.stores),
        "offsets": {owned.owner: listing.build_items(rows)},
        "findings": [build_finding(found) for found in owned.findings],
        "notes": list(owned.notes),
    }
    if owned.rest is not None:
        body["rest"] = [build_offset(one) for one in owned.rest]
    if raw:
        body["records"] = [build_evidence(found) for found in _find_records(owned)]
    return body


def _build_lines(
    owned: OwnerOffsets, listing: Listing[Row], rows: Sequence[Row], screen: Screen, *, raw: bool
) -> list[Line]:
    count = render_count(len(rows), "offset")
    route = f"from {', '.join(owned.stores)}" if owned.stores else f"through {owned.route}"
    if owned.connector is not None:
        head = build_heading(owned.connector, count, route)
    else:
        head = line(Span(owned.owner, Style.STRONG), f" · {count} · {route}")
    lines = [
        head,
        # A truncated offset can't be compared or copied, so the terminal wraps it instead.
        *listing.build_lines(rows, dataclasses.replace(screen, width=None), indent="  "),
    ]
    if owned.forgotten:
        names = ", ".join(render_partition(found.key.partition) for found in owned.forgotten[:3])
        more = " …" if len(owned.forgotten) > 3 else ""
        lines.append(line(Span(f"  deleted: {names}{more}", Style.MUTED)))
    for finding in owned.findings:
        if finding.connector or raw or finding.evidence == ():
            lines += render_finding(finding, raw=raw)
    unowned = [finding for finding in owned.findings if not finding.connector and finding.evidence]
    if unowned and not raw:
        count = render_count(len(unowned), "record")
        text = f"{count} of {owned.stores[0]} without a known owner; list them with --raw"
        lines.append(line(Span("! ", Style.WARN), Span("bad-key", Style.STRONG), f"  {text}"))
    if raw:
        lines += [line("records:"), *(line(f"  {render_record(found)}") for found in _find_records(owned))]
    return [*lines, *(line(Span("! ", Style.WARN), note) for note in owned.notes)]


def _find_records(owned: OwnerOffsets) -> list[StoredRecord]:
    stored: tuple[StoredOffset, ...] = (*owned.stored, *owned.forgotten)
    return [record for found in stored for record in (found.evidence, *found.others) if record.key is not None]


def _find_time(row: Row) -> str | None:
    stamp = row.evidence.timestamp_ms if row.evidence else None
    return None if stamp is None else render_time(build_time(stamp))


def _render_age(row: Row, now: datetime) -> str:
    stamp = row.evidence.timestamp_ms if row.evidence else None
    return "-" if stamp is None else render_ago((now - build_time(stamp)).total_seconds())


def _encode(raw: bytes | None) -> str | None:
    return None if raw is None else base64.b64encode(raw).decode()
