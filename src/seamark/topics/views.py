"""Views of topics: the list, one in detail, and their health."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from seamark.core.readings import Reading, Severity
from seamark.kafka.model import LogOffsets, PartitionStatus, TopicConfig, TopicStatus
from seamark.report.listing import Column, Listing, View
from seamark.report.terminal import build_failures
from seamark.report.text import Line, Screen, Span, Style, line
from seamark.report.words import render_bytes, render_count, render_number, render_severity, style_severity
from seamark.topics.health_model import TopicFinding, TopicHealth
from seamark.topics.users import TopicReport, TopicUser

_NOUNS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "remark"}
# The width of "✗ ERROR" and "▲ WARNING".
_SIGN_WIDTH = 9
# Two or three lines of a terminal; an option shows all of them.
_MOST_PLACES = 10

HEALTH_LISTING: Listing[TopicFinding] = Listing(
    kind="TopicFindingList",
    noun="finding",
    name=lambda found: f"{found.check}/{found.topic or 'brokers'}",
    columns=(
        Column("severity", "SEVERITY", lambda found: found.severity.value),
        Column("check", "CHECK", lambda found: found.check.value),
        Column("topic", "TOPIC", lambda found: found.topic),
        Column("partitions", "PARTITIONS", lambda found: list(found.partitions)),
        Column("reader", "CONSUMER", lambda found: found.reader),
        Column("what", "MESSAGE", lambda found: found.what),
        Column("why", "REASON", lambda found: found.why),
        Column("next_step", "NEXT STEP", lambda found: found.next_step),
    ),
)


def build_topic_health_view(health: TopicHealth) -> View[TopicFinding]:
    """Build the view of every finding with its reason, and of what was checked."""
    return View(
        HEALTH_LISTING,
        health.findings,
        kind="TopicHealth",
        body=lambda: _build_health_body(health),
        lines=lambda screen: _build_health_lines(health, screen),
    )


def render_partitions(numbers: Sequence[int]) -> str:
    """Format numbers as ranges: `0-3,7`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _build_health_body(health: TopicHealth) -> dict[str, Any]:
    return {
        "examined": {"topics": len(health.topics), "partitions": health.partitions, "groups": health.groups},
        "counts": {severity.value: _count(health, severity) for severity in _NOUNS},
        "items": HEALTH_LISTING.build_items(health.findings),
        "failures": build_failures(health.failures),
    }


def _build_health_lines(health: TopicHealth, screen: Screen) -> list[Line]:
    """Format findings; what many topics share is stated once, because a broker that is down may affect all of them."""
    groups: dict[tuple[str, ...], list[TopicFinding]] = {}
    for found in health.findings:
        key = (found.severity, found.check, found.what, found.why, found.next_step)
        groups.setdefault(key, []).append(found)
    lines = [text for same in groups.values() for text in _build_group(same, is_whole=screen.wide)]
    return [*lines, _sum_up(health)]


def _build_group(same: Sequence[TopicFinding], *, is_whole: bool) -> list[Line]:
    first = same[0]
    places = [_render_place(found) for found in same]
    shown = places if is_whole else places[:_MOST_PLACES]
    more = f" and {render_count(len(places) - len(shown), 'topic')} more (-o wide)" if len(shown) < len(places) else ""
    return [
        line(
            Span(render_severity(first.severity).ljust(_SIGN_WIDTH), style_severity(first.severity)),
            "  ",
            Span(first.what, Style.STRONG),
            Span(f"  ({first.check})", Style.MUTED),
        ),
        line("    where: ", " · ".join(shown), more),
        line("    why:   ", first.why),
        line("    next:  ", first.next_step),
    ]


def _render_place(found: TopicFinding) -> str:
    if not found.topic:
        return "brokers"
    return f"{found.topic} {render_partitions(found.partitions)}" if found.partitions else found.topic


def _count(health: TopicHealth, severity: Severity) -> int:
    return sum(found.severity is severity for found in health.findings)


def _sum_up(health: TopicHealth) -> Line:
    checked = ", ".join(
        (
            render_count(len(health.topics), "topic"),
            render_count(health.partitions, "partition"),
            render_count(health.groups, "group"),
        )
    )
    numbers = {noun: _count(health, severity) for severity, noun in _NOUNS.items()}
    counts = [render_count(number, noun) for noun, number in numbers.items() if number]
    # If something could not be read, the result must not be "no findings".
    fine = "no findings in what could be read" if health.failures else "no findings"
    return line(f"{checked} checked: ", Span(", ".join(counts) or fine, Style.STRONG if counts else Style.PLAIN))


_SIZES = ("records", "bytes")


def render_topic_health(topic: TopicStatus) -> str:
    """Return the worst problem of a topic's replicas as one status."""
    if topic.leaderless:
        return "✗ LEADERLESS"
    if topic.under_min_isr:
        # With all replicas in sync, only old brokers reject writes.
        return f"{'✗' if topic.refusing else '▲'} UNDER MIN ISR"
    return "▲ UNDER-REPLICATED" if topic.under_replicated else "✓ HEALTHY"


def _style(topic: TopicStatus) -> Style:
    if topic.leaderless or topic.refusing:
        return Style.BAD
    return Style.WARN if topic.under_replicated or topic.under_min_isr else Style.GOOD


TOPIC_LISTING: Listing[TopicReport] = Listing(
    kind="TopicList",
    noun="topic",
    name=lambda topic: topic.name,
    columns=(
        Column("topic", "TOPIC", lambda topic: topic.name),
        Column("partitions", "PARTITIONS", lambda topic: len(topic.status.partitions), right=True),
        Column("replication", "REPLICATION", lambda topic: topic.status.replication_factor, right=True),
        Column(
            "health",
            "HEALTH",
            lambda topic: render_topic_health(topic.status).partition(" ")[2],
            text=lambda topic: render_topic_health(topic.status),
            style=lambda topic: _style(topic.status),
        ),
        Column("cleanup_policy", "CLEANUP", lambda topic: topic.status.config("cleanup.policy")),
        Column(
            "records", "RECORDS", lambda topic: topic.records, text=lambda topic: _number(topic.records), right=True
        ),
        Column("bytes", "BYTES", lambda topic: topic.bytes, text=lambda topic: _bytes(topic.bytes), right=True),
        Column("internal", "INTERNAL", lambda topic: topic.status.is_internal, wide=True),
        Column("configs", "", lambda topic: topic.status.own_configs),
        Column("topic_id", "ID", lambda topic: topic.status.topic_id, wide=True),
    ),
)

# Columns that were not requested are omitted.
_UNMEASURED = replace(TOPIC_LISTING, columns=tuple(found for found in TOPIC_LISTING.columns if found.key not in _SIZES))

# A partition with its log offsets and its bytes.
Row = tuple[PartitionStatus, LogOffsets | None, int | None]

PARTITIONS: Listing[Row] = Listing(
    kind="PartitionList",
    noun="partition",
    name=lambda row: str(row[0].id),
    columns=(
        Column("partition", "PARTITION", lambda row: row[0].id, right=True, is_id=True),
        Column("leader", "LEADER", lambda row: row[0].leader, right=True, is_id=True),
        Column("replicas", "REPLICAS", lambda row: list(row[0].replicas), text=lambda row: _join(row[0].replicas)),
        Column(
            "isr",
            "ISR",
            lambda row: list(row[0].isr),
            text=lambda row: _join(row[0].isr),
            style=lambda row: Style.WARN if row[0].is_under_replicated else Style.PLAIN,
        ),
        Column("earliest", "EARLIEST", lambda row: row[1].earliest if row[1] else None, right=True),
        Column("latest", "LATEST", lambda row: row[1].latest if row[1] else None, right=True),
        Column("bytes", "BYTES", lambda row: row[2], text=lambda row: _bytes(row[2]), right=True),
    ),
)


def build_topics_view(reading: Reading[TopicReport], rows: tuple[TopicReport, ...]) -> View[TopicReport]:
    """Build the view of topics, and of what could not be read."""
    measured = any(row.records is not None or row.bytes is not None for row in rows)
    return View(
        TOPIC_LISTING if measured else _UNMEASURED,
        rows,
        body=lambda: {"items": TOPIC_LISTING.build_items(rows), "failures": build_failures(reading.failures)},
        empty="no topics",
    )


def build_topic_view(topic: TopicReport) -> View[TopicReport]:
    """Build the view of one topic: its partitions, its own configs, its users."""
    return View(
        TOPIC_LISTING,
        (topic,),
        kind="Topic",
        body=lambda: _build_topic_body(topic),
        lines=lambda screen: _build_topic_lines(topic, screen),
    )


def _build_topic_body(topic: TopicReport) -> dict[str, Any]:
    return {
        **TOPIC_LISTING.build_items([topic])[0],
        "changed_configs": {key: found.value for key, found in sorted(topic.status.changed_configs.items())},
        "partitions": PARTITIONS.build_items(_build_rows(topic)),
        "users": [
            {"subject": user.subject, "use": user.use.value, "state": user.state, "active": user.is_active}
            for user in topic.users
        ],
        "notes": list(topic.notes),
    }


def _build_topic_lines(topic: TopicReport, screen: Screen) -> list[Line]:
    status = topic.status
    count = render_count(len(status.partitions), "partition")
    held = "" if topic.records is None else f" · {render_count(topic.records, 'record')}"
    size = "" if topic.bytes is None else f" · {render_bytes(topic.bytes)}"
    head = f" · {count}, replication factor {status.replication_factor}{held}{size} · "
    lines = [line(Span(f"topic {topic.name}", Style.STRONG), head, Span(render_topic_health(status), _style(status)))]
    lines += PARTITIONS.build_lines(_build_rows(topic), screen, indent="  ")
    if status.changed_configs:
        lines.append(line(Span("Configs that differ from Kafka's default", Style.STRONG)))
        lines += [_build_config(key, found) for key, found in sorted(status.changed_configs.items())]
    if status.configs_error:
        lines.append(line(Span("! ", Style.WARN), f"configs unknown: {status.configs_error}"))
    lines.append(line(Span("Used by" if topic.users else "No known users", Style.STRONG)))
    lines += [_build_user(user) for user in topic.users]
    return [*lines, *(line(Span("! ", Style.WARN), note) for note in topic.notes)]


def _build_config(key: str, found: TopicConfig) -> Line:
    value = "(sensitive)" if found.is_sensitive else found.value
    return line(f"  {key}={value}", Span("" if found.is_own else "  (set at the brokers)", Style.MUTED))


def _build_user(user: TopicUser) -> Line:
    return line(f"  {user.subject} {user.use} ", Span(f"({user.state})", Style.MUTED))


def _build_rows(topic: TopicReport) -> list[Row]:
    sizes = topic.size.by_partition if topic.size else {}
    bounds = topic.bounds or {}
    return [(found, bounds.get(found.id), sizes.get(found.id)) for found in topic.status.partitions]


def _number(value: int | None) -> str:
    return "-" if value is None else render_number(value)


def _bytes(value: int | None) -> str:
    return "-" if value is None else render_bytes(value)


def _join(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers)) or "-"
