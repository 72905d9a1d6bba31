"""Views of groups: the list, one group in full, and the lag of all groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from seamark.core.readings import Reading, Severity
from seamark.groups.lag import Delay, GroupEntry, GroupLag, GroupReport, LagLimit
from seamark.kafka.groups import Committed, GroupMember
from seamark.kafka.model import LogOffsets, TopicPartition
from seamark.report.listing import Column, Listing, View
from seamark.report.table import render_sparkline
from seamark.report.terminal import build_failures
from seamark.report.text import Line, Screen, Span, Style, line
from seamark.report.words import render_count, render_duration, render_number

# This many bars fit beside the other columns in a terminal of 120 characters.
_TREND_WIDTH = 20


def _number(value: int | None) -> str:
    return "-" if value is None else render_number(value)


def _seconds(delay: Delay | None) -> float | None:
    return None if delay is None else round(delay.seconds, 3)


def render_delay(delay: Delay | None) -> str:
    """Format a delay: `2 h`, or `~ 2 h` if it isn't exact."""
    if delay is None:
        return "-"
    return ("" if delay.is_exact else "~ ") + (render_duration(delay.seconds) if delay.seconds else "0 s")


def _build_worst(found: GroupLag) -> dict[str, Any] | None:
    if found.worst is None:
        return None
    (topic, number), count = found.worst
    return {"topic": topic, "partition": number, "lag": count}


def _render_worst(found: GroupLag) -> str:
    if found.worst is None:
        return "no committed offsets" if not found.lag else "unknown"
    (topic, number), count = found.worst
    return f"{topic}-{number} {render_number(count)}" if count else "-"


LISTING: Listing[GroupEntry] = Listing(
    kind="GroupList",
    noun="group",
    name=lambda group: group.name,
    columns=(
        Column("group", "GROUP", lambda group: group.name),
        Column("state", "STATE", lambda group: group.listing.state),
        Column("type", "TYPE", lambda group: group.listing.type.value),
        Column("protocol", "PROTOCOL", lambda group: group.listing.protocol, wide=True),
        Column("connector", "CONNECTOR", lambda group: group.connector),
    ),
)

MEMBERS: Listing[GroupMember] = Listing(
    kind="MemberList",
    noun="member",
    name=lambda member: member.id,
    columns=(
        Column("client_id", "CLIENT", lambda member: member.client_id),
        Column("host", "HOST", lambda member: member.host),
        Column(
            "assignment",
            "PARTITIONS",
            lambda member: [f"{topic}-{number}" for topic, number in member.assignment],
            text=lambda member: ", ".join(f"{topic}-{number}" for topic, number in member.assignment) or "-",
        ),
        Column("instance_id", "INSTANCE", lambda member: member.instance_id, wide=True),
        Column("id", "MEMBER", lambda member: member.id, wide=True),
    ),
)

# A partition, its committed offset, its log bounds, the lag in records, and the delay.
Row = tuple[TopicPartition, Committed, LogOffsets | None, int | None, Delay | None]

POSITIONS: Listing[Row] = Listing(
    kind="PositionList",
    noun="partition",
    name=lambda row: f"{row[0][0]}-{row[0][1]}",
    columns=(
        Column("topic", "TOPIC", lambda row: row[0][0]),
        Column("partition", "PARTITION", lambda row: row[0][1], right=True, is_id=True),
        Column("offset", "OFFSET", lambda row: row[1].offset, right=True),
        Column("earliest", "EARLIEST", lambda row: row[2].earliest if row[2] else None, right=True),
        Column("latest", "LATEST", lambda row: row[2].latest if row[2] else None, right=True),
        Column("lag", "LAG", lambda row: row[3], text=lambda row: _number(row[3]), right=True),
        Column("seconds", "DELAY", lambda row: _seconds(row[4]), text=lambda row: render_delay(row[4]), right=True),
        Column("metadata", "METADATA", lambda row: row[1].metadata, wide=True),
    ),
)

LAGS: Listing[GroupLag] = Listing(
    kind="LagList",
    noun="group",
    name=lambda found: found.name,
    columns=(
        Column("group", "GROUP", lambda found: found.name),
        Column("connector", "CONNECTOR", lambda found: found.connector),
        Column("state", "STATE", lambda found: found.state),
        Column("partitions", "PARTITIONS", lambda found: len(found.lag), right=True),
        Column("lag", "LAG", lambda found: found.total, text=lambda found: _number(found.total), right=True),
        Column(
            "seconds",
            "DELAY",
            lambda found: _seconds(found.delay),
            text=lambda found: render_delay(found.delay),
            right=True,
        ),
        Column("worst", "WORST", _build_worst, text=_render_worst),
        Column("unknown", "UNKNOWN", lambda found: found.unknown, wide=True, right=True),
    ),
)


def build_groups_view(reading: Reading[GroupEntry], rows: tuple[GroupEntry, ...]) -> View[GroupEntry]:
    """Build the view of groups, and of what couldn't be read."""
    return View(
        LISTING,
        rows,
        body=lambda: {"items": LISTING.build_items(rows), "failures": build_failures(reading.failures)},
        empty="no groups",
    )


def build_group_view(report: GroupReport) -> View[Row]:
    """Build the view of one group. Its rows are committed offsets: `groups move --from-file` can read the CSV."""
    rows = _build_rows(report)
    return View(
        POSITIONS,
        rows,
        kind="Group",
        body=lambda: _build_body(report, rows),
        lines=lambda screen: _build_lines(report, rows, screen),
        empty="no committed offsets",
    )


def build_lag_view(
    reading: Reading[GroupLag],
    trends: Mapping[str, Sequence[int | None]] | None = None,
    *,
    limit: LagLimit | None = None,
) -> View[GroupLag]:
    """Build the view of lag, the largest first, and the total. `trends` are previous totals by group, newest last.

    With a limit, the groups above it are named.
    """
    above = [found.name for found in reading.items if limit and limit.rate(found) is Severity.ERROR]
    return View(
        LAGS,
        reading.items,
        body=lambda: {
            "total": _sum(reading.items),
            **({"above_max_lag": above} if limit else {}),
            "items": LAGS.build_items(reading.items),
            "failures": build_failures(reading.failures),
        },
        lines=lambda screen: [
            *_build_lag_lines(reading.items, trends or {}, screen),
            *([line(Span("above --max-lag: ", Style.BAD), ", ".join(above))] if above else []),
        ],
        empty="no groups",
    )


def _build_body(report: GroupReport, rows: Sequence[Row]) -> dict[str, Any]:
    group = report.group
    return {
        "group": group.name,
        "state": group.state,
        "type": group.type.value,
        "connector": report.connector,
        "coordinator": group.coordinator,
        "members": MEMBERS.build_items(group.members),
        "positions": POSITIONS.build_items(rows),
        "notes": list(report.notes),
    }


def _build_lines(report: GroupReport, rows: Sequence[Row], screen: Screen) -> list[Line]:
    group = report.group
    known = [lag for *_, lag, _ in rows if lag is not None]
    lag = f" · lag {render_count(sum(known), 'record')}" if known else ""
    connector = f" · connector/{report.connector}" if report.connector else ""
    head = f" · {group.state} · {group.type.value} · {render_count(len(group.members), 'member')}{lag}{connector}"
    return [
        line(Span(f"group {group.name}", Style.STRONG), head),
        *POSITIONS.build_lines(rows, screen, indent="  "),
        *MEMBERS.build_lines(group.members, screen, indent="  "),
        *(line(Span("! ", Style.WARN), note) for note in report.notes),
    ]


def _build_lag_lines(
    rows: Sequence[GroupLag], trends: Mapping[str, Sequence[int | None]], screen: Screen
) -> list[Line]:
    listing = LAGS
    if any(len(values) > 1 for values in trends.values()):
        trend: Column[GroupLag] = Column("trend", "TREND", lambda found: _render_trend(trends.get(found.name, ())))
        listing = Listing(LAGS.kind, LAGS.noun, LAGS.name, (*LAGS.columns, trend))
    lines = listing.build_lines(rows, screen)
    total = f"{render_count(len(rows), 'group')}, total lag {render_count(_sum(rows), 'record')}"
    waiting = [(found.delay.seconds, found) for found in rows if found.delay is not None and found.delay.seconds]
    if not waiting:
        return [*lines, line(total)]
    _, longest = max(waiting, key=lambda pair: pair[0])
    return [*lines, line(f"{total}; highest delay {render_delay(longest.delay)} ({longest.name})")]


def _render_trend(values: Sequence[int | None]) -> str:
    return render_sparkline(list(values), width=_TREND_WIDTH)


def _build_rows(report: GroupReport) -> tuple[Row, ...]:
    lags = report.lag
    return tuple(
        (spot, commit, report.bounds.get(spot), lags[spot], _find_delay(report, spot, lags[spot]))
        for spot, commit in sorted(report.offsets.items())
    )


def _find_delay(report: GroupReport, spot: TopicPartition, lag: int | None) -> Delay | None:
    return Delay(0.0) if lag == 0 else report.delays.get(spot)


def _sum(rows: Sequence[GroupLag]) -> int:
    return sum(found.total or 0 for found in rows)
