"""The health of topics: what was found, worst first, each thing with its reason and the next step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from seamark.core.finding import Severity
from seamark.report.error import build_failures
from seamark.report.listing import Column, Listing, View
from seamark.report.text import Line, Screen, Span, Style, line
from seamark.report.words import render_count, render_severity, style_severity
from seamark.topics.topic_health import TopicFinding, TopicHealth

_NOUNS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "remark"}
# "✗ ERROR" and "▲ WARNING" side by side.
_SIGN_WIDTH = 9
# Two or three lines of a terminal; who wants all of them says so.
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
        Column("reader", "READER", lambda found: found.reader),
        Column("what", "WHAT", lambda found: found.what),
        Column("why", "WHY", lambda found: found.why),
        Column("next_step", "NEXT", lambda found: found.next_step),
    ),
)


def build_topic_health_view(health: TopicHealth) -> View[TopicFinding]:
    """Every finding with its reason, and how much was looked at."""
    return View(
        HEALTH_LISTING,
        health.findings,
        kind="TopicHealth",
        body=lambda: _build_health_body(health),
        lines=lambda screen: _build_health_lines(health, screen),
    )


def render_partitions(numbers: Sequence[int]) -> str:
    """Numbers in short: `0-3,7`."""
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
    """What is the same of many topics is said once: a broker that is gone may be missed by all of them."""
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
    looked = ", ".join(
        (
            render_count(len(health.topics), "topic"),
            render_count(health.partitions, "partition"),
            render_count(health.groups, "group"),
        )
    )
    numbers = {noun: _count(health, severity) for severity, noun in _NOUNS.items()}
    counts = [render_count(number, noun) for noun, number in numbers.items() if number]
    # Where something could not be read, nobody can say that all is well.
    fine = "nothing found in what could be read" if health.failures else "all is well" if health.topics else "nothing"
    return line(f"{looked} looked at: ", Span(", ".join(counts) or fine, Style.STRONG if counts else Style.PLAIN))
