"""Views of offset history, comparisons, orphaned offsets and export checks."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache

from seamark.core.readings import Reading
from seamark.offsets.exports import (
    DifferenceKind,
    ExportCheck,
    HistoryEntry,
    OffsetComparison,
    OffsetDifference,
    Orphan,
)
from seamark.offsets.read.listing import ListedOffset, OffsetList
from seamark.offsets.views import (
    build_evidence,
    build_offset,
    render_bytes_of,
    render_partition,
    render_position,
)
from seamark.report.data import build_cell, render_json_value, space_json
from seamark.report.listing import Column, Listing, View
from seamark.report.terminal import build_failures
from seamark.report.text import Line, Screen, Span, Style, line
from seamark.report.words import build_time, render_ago, render_count, render_map, render_time

_MARKS = {
    DifferenceKind.ADDED: ("+", Style.GOOD),
    DifferenceKind.REMOVED: ("-", Style.BAD),
    DifferenceKind.CHANGED: ("~", Style.WARN),
}


def _render_write(entry: HistoryEntry) -> str:
    found = entry.evidence
    if found.is_tombstone:
        return "forgotten"
    if found.offset is None:
        return f"{found.value_verdict}: {render_bytes_of(found.value)}"
    return render_map(found.offset)


def _render_entry_partition(entry: HistoryEntry) -> str:
    if entry.partition is None:
        return f"{entry.evidence.key_verdict}: {render_bytes_of(entry.evidence.key)}"
    return render_map(entry.partition)


HISTORY: Listing[HistoryEntry] = Listing(
    kind="OffsetHistory",
    noun="write",
    name=lambda entry: entry.evidence.place,
    columns=(
        Column("written", "WRITTEN", lambda entry: _render_stamp(entry.evidence.timestamp_ms)),
        Column(
            "partition",
            "PARTITION",
            lambda entry: None if entry.partition is None else dict(entry.partition),
            text=_render_entry_partition,
        ),
        Column(
            "offset",
            "OFFSET",
            lambda entry: None if entry.offset is None else dict(entry.offset),
            text=_render_write,
        ),
        Column("record", "RECORD", lambda entry: entry.evidence.place),
        Column("evidence", "", lambda entry: build_evidence(entry.evidence)),
    ),
)

DIFFERENCES: Listing[OffsetDifference] = Listing(
    kind="OffsetDifferences",
    noun="difference",
    name=lambda found: found.owner,
    columns=(
        Column("owner", "OWNER", lambda found: found.owner),
        Column("difference", "DIFFERENCE", lambda found: found.difference.value),
        Column(
            "partition",
            "PARTITION",
            lambda found: dict(found.partition),
            text=lambda found: render_partition(found.partition),
        ),
        Column("before", "BEFORE", lambda found: None if found.before is None else dict(found.before)),
        Column("after", "AFTER", lambda found: None if found.after is None else dict(found.after)),
    ),
)

CHECKS: Listing[ExportCheck] = Listing(
    kind="OffsetExportCheck",
    noun="export",
    name=lambda found: found.file,
    columns=(
        Column("file", "FILE", lambda found: found.file),
        Column("time", "TIME", lambda found: found.time),
        Column("source", "", lambda found: dict(found.source)),
        Column("owners", "OWNERS", lambda found: found.owners, right=True),
        Column("offsets", "OFFSETS", lambda found: found.offsets, right=True),
        Column("records", "RECORDS", lambda found: found.records, right=True),
        Column("findings", "FINDINGS", lambda found: found.findings, right=True),
        Column("failures", "", lambda found: dict(found.failures)),
        Column("problems", "", lambda found: list(found.problems)),
    ),
)


def build_history_view(owner: str, entries: Sequence[HistoryEntry]) -> View[HistoryEntry]:
    """Build the view of every write that is still in the topic, oldest first."""
    return View(
        HISTORY,
        entries,
        body=lambda: {"owner": owner, "items": HISTORY.build_items(entries)},
        lines=lambda screen: [
            line(Span(owner, Style.STRONG), f" · {render_count(len(entries), 'write')} not compacted yet"),
            *HISTORY.build_lines(entries, dataclasses.replace(screen, width=None), indent="  "),
        ],
        empty="no writes: none was made, or all are compacted",
    )


def build_comparison_view(found: OffsetComparison) -> View[OffsetDifference]:
    """Build the view of the differences, one per line."""
    return View(
        DIFFERENCES,
        found.differences,
        body=lambda: {
            "before": found.before,
            "after": found.after,
            "equal": found.equal,
            "items": DIFFERENCES.build_items(found.differences),
        },
        lines=lambda _: _build_comparison_lines(found),
    )


def build_orphans_view(reading: Reading[Orphan], *, now: datetime | None = None) -> View[Orphan]:
    """Build the view of orphaned offsets with their age."""
    moment = now or datetime.now(UTC)
    listing: Listing[Orphan] = Listing(
        kind="OrphanList",
        noun="orphan",
        name=lambda found: found.owner,
        columns=(
            Column("owner", "OWNER", lambda found: found.owner),
            Column("count", "OFFSETS", lambda found: len(found.offsets), right=True),
            Column("written", "WRITTEN", lambda found: _render_stamp(found.written_ms), text=lambda f: _age(f, moment)),
            Column("store", "STORE", lambda found: found.store),
            Column("offsets", "", lambda found: [build_offset(one) for one in found.offsets]),
        ),
    )
    return View(
        listing,
        reading.items,
        body=lambda: {"items": listing.build_items(reading.items), "failures": build_failures(reading.failures)},
        empty="no orphaned offsets",
    )


def build_list_view(found: OffsetList, *, now: datetime | None = None) -> View[ListedOffset]:
    """Build the view of the offsets of many owners. Its rows are built one by one."""
    moment = now or datetime.now(UTC)
    moment_ms = moment.timestamp() * 1000
    # Whole seconds decide what is rendered from one second on.
    render_age = lru_cache(maxsize=4096)(render_ago)

    def render_age_of(row: ListedOffset) -> str:
        if row.written_ms is None:
            return "-"
        seconds = (moment_ms - row.written_ms) / 1000
        return render_age(int(seconds)) if abs(seconds) >= 1 else render_ago(seconds)

    def build_age(row: ListedOffset) -> float | None:
        return None if row.written_ms is None else round((moment_ms - row.written_ms) / 1000, 3)

    listing: Listing[ListedOffset] = Listing(
        kind="OffsetList",
        noun="offset",
        name=lambda row: row.owner,
        columns=(
            Column(
                "owner",
                "OWNER",
                lambda row: row.owner,
                json_text=lambda row: _render_name(row.owner),
                cell_text=lambda row: _build_name_cell(row.owner),
            ),
            Column(
                "partition",
                "PARTITION",
                lambda row: row.partition,
                text=_render_listed_partition,
                json_text=lambda row: space_json(row.written[0]) if row.written else render_json_value(row.decoded[0]),
                cell_text=lambda row: row.written[0] if row.written else build_cell(row.decoded[0]),
            ),
            Column(
                "offset",
                "OFFSET",
                lambda row: row.offset,
                text=_render_listed_offset,
                json_text=lambda row: space_json(row.written[1]) if row.written else render_json_value(row.decoded[1]),
                cell_text=_build_offset_cell,
            ),
            Column(
                "store",
                "STORE",
                lambda row: row.store,
                json_text=lambda row: _render_name(row.store),
                cell_text=lambda row: _build_name_cell(row.store),
            ),
            Column("record", "RECORD", lambda row: row.record or None, wide=True),
            Column(
                "written",
                "WRITTEN",
                lambda row: _render_listed_stamp(row.written_ms),
                text=render_age_of,
                json_text=lambda row: "null" if row.written_ms is None else f'"{_render_listed_stamp(row.written_ms)}"',
                cell_text=lambda row: _render_listed_stamp(row.written_ms) or "",
            ),
            Column(
                "age_seconds",
                "",
                build_age,
                json_text=lambda row: "null" if row.written_ms is None else repr(build_age(row)),
            ),
            Column(
                "findings",
                "FINDINGS",
                lambda row: list(row.findings),
                text=_render_findings,
                json_text=lambda row: render_json_value(row.findings) if row.findings else "[]",
                cell_text=lambda row: build_cell(row.findings) if row.findings else "[]",
            ),
        ),
    )
    return View(
        listing,
        found,
        body=lambda: {
            "notes": [note.message for note in found.notes],
            "failures": build_failures(found.failures),
        },
        lines=lambda _: [line(Span("! ", Style.WARN), note.message) for note in found.notes],
        empty="no offsets",
        is_large=True,
    )


@lru_cache(maxsize=4096)
def _render_minute(minute: int) -> str:
    return render_time(build_time(minute * 60_000))[:-3]


def _render_listed_stamp(timestamp_ms: int | None) -> str | None:
    if timestamp_ms is None:
        return None
    minute, rest = divmod(timestamp_ms, 60_000)
    return f"{_render_minute(minute)}{rest // 1000:02}Z"


def _build_offset_cell(row: ListedOffset) -> str:
    # Java's way to write a decimal is not Python's.
    return row.written[1] if row.written and "." not in row.written[1] else build_cell(row.offset)


# The same for all rows of an owner.
_render_name = lru_cache(maxsize=256)(render_json_value)
_build_name_cell = lru_cache(maxsize=256)(build_cell)


def _render_findings(row: ListedOffset) -> str:
    return ", ".join(row.findings) or "-"


def _render_listed_partition(row: ListedOffset) -> str:
    return "(unreadable key)" if (partition := row.partition) is None else render_partition(partition)


def _render_listed_offset(row: ListedOffset) -> str:
    return "-" if row.written is None and row.decoded[0] is None else render_position(row.offset)


def build_check_view(found: ExportCheck) -> View[ExportCheck]:
    """Build the view of a checked export."""
    return View(CHECKS, (found,), body=lambda: CHECKS.build_items((found,))[0], lines=lambda s: _build_check(found, s))


def _build_check(found: ExportCheck, screen: Screen) -> list[Line]:
    where = found.source.get("context", "")
    holes = [line(Span("! ", Style.WARN), f"not exported: {name}: {text}") for name, text in found.failures.items()]
    wrong = [line(Span("✗ ", Style.BAD), problem) for problem in found.problems]
    good = [] if wrong else [line(Span("✓ ", Style.GOOD), "checksums match, and the offsets match the stored bytes")]
    return [
        line(Span(found.file, Style.STRONG), f" · {found.time} · context {where}"),
        *CHECKS.build_lines((found,), screen, indent="  "),
        *holes,
        *wrong,
        *good,
    ]


def _build_comparison_lines(found: OffsetComparison) -> list[Line]:
    lines = [line(f"{found.before} → {found.after}")]
    for one in found.differences:
        mark, style = _MARKS[one.difference]
        before, after = (render_position(side) for side in (one.before, one.after))
        change = {
            DifferenceKind.ADDED: after,
            DifferenceKind.REMOVED: before,
            DifferenceKind.CHANGED: f"{before} → {after}",
        }[one.difference]
        where = render_partition(one.partition)
        lines.append(line("  ", Span(mark, style), f" {one.owner}  {where}  {change}"))
    total = f"{render_count(len(found.differences), 'difference')}, {found.equal} equal"
    return [*lines, line(total)]


def _age(found: Orphan, now: datetime) -> str:
    if found.written_ms is None:
        return "-"
    return render_ago((now - build_time(found.written_ms)).total_seconds())


def _render_stamp(timestamp_ms: int | None) -> str | None:
    return None if timestamp_ms is None else render_time(build_time(timestamp_ms))
