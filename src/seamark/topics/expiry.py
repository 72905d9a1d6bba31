"""Stopped sinks whose positions the brokers will forget.

The brokers forget what a group has committed when nobody was in it for `offsets.retention.minutes`. Since when nobody
is in it, Kafka does not tell. What the log tells is whether the sink has read something that was written recently: then
it was at work since. Where it has not, it may have stopped before, or there was nothing to read; we say which.
"""

from __future__ import annotations

from collections.abc import Iterator

from seamark.connect.connector import State
from seamark.core.finding import Severity
from seamark.report.words import render_duration
from seamark.topics.evidence import HealthEvidence, Reader
from seamark.topics.lifetimes import WARN_AT
from seamark.topics.topic_health import HealthCheck, TopicFinding


def examine_expiry(evidence: HealthEvidence) -> Iterator[TopicFinding]:
    """offsets-expire: each sink that nobody has seen at work for long, or that is stopped and has no position."""
    yield from _find_forgotten(evidence)
    retention = evidence.offsets_retention_seconds
    for reader in evidence.readers:
        if retention is None or not reader.sinks or not reader.is_quiet:
            continue
        spots = [spot for spot in reader.offsets if spot in evidence.idle]
        # One record that was written within the safe time and read by the sink is enough: all offsets of a classic
        # group expire together, counted from when it was left empty.
        if not spots or any(_is_recent(reader, spot, evidence) for spot in spots):
            continue
        waiting = sorted(spot for spot in spots if _has_waited(reader, spot, evidence))
        yield from _build_expiry_findings(
            reader, waiting or sorted(spots), is_likely=bool(waiting), retention=retention
        )


def _find_forgotten(evidence: HealthEvidence) -> Iterator[TopicFinding]:
    """Stopped sinks without a position. Where something could not be read, nobody knows who has one."""
    holding = {reader.group for reader in evidence.readers if reader.offsets}
    if evidence.failures:
        return
    for group, sinks in sorted(evidence.sinks.items()):
        for sink in sinks if group not in holding else ():
            if sink.status is None or sink.status.state is not State.STOPPED:
                continue
            for topic in sorted(name.strip() for name in sink.config.get("topics", "").split(",")):
                if topic in evidence.topics:
                    yield _build_forgotten(f"connector/{sink.owner}", topic)


def _build_forgotten(subject: str, topic: str) -> TopicFinding:
    return TopicFinding(
        HealthCheck.OFFSETS_EXPIRE,
        Severity.INFO,
        topic,
        (),
        what=f"{subject} is stopped and has no position: it has never read, or the brokers have forgotten it",
        why="when it runs next it begins where auto.offset.reset says (earliest for a sink)",
        next_step="if it has read before, move its group to where it stood before you run it: seamark groups move",
        reader=subject,
    )


def _is_recent(reader: Reader, spot: tuple[str, int], evidence: HealthEvidence) -> bool:
    young = evidence.idle[spot]
    return young is not None and reader.offsets[spot].offset > young


def _has_waited(reader: Reader, spot: tuple[str, int], evidence: HealthEvidence) -> bool:
    """Whether the next record was there before the safe time began, and the sink has not read it since."""
    young, bounds = evidence.idle[spot], evidence.bounds.get(spot)
    end = young if young is not None else (bounds.latest if bounds else 0)
    return reader.offsets[spot].offset < end


def _build_expiry_findings(
    reader: Reader, spots: list[tuple[str, int]], *, is_likely: bool, retention: float
) -> Iterator[TopicFinding]:
    safe, kept = render_duration(retention * WARN_AT), render_duration(retention)
    seen = (
        f"records older than {safe} wait for it"
        if is_likely
        else f"nothing it could read was written for {safe}, so nobody can tell since when"
    )
    for topic in dict.fromkeys(topic for topic, _ in spots):
        yield TopicFinding(
            HealthCheck.OFFSETS_EXPIRE,
            Severity.WARNING if is_likely else Severity.INFO,
            topic,
            tuple(number for name, number in spots if name == topic),
            what=f"{reader.subject} is not at work, and {seen}",
            why=f"the brokers forget its position when it was empty for {kept} (offsets.retention.minutes); "
            "then it begins where auto.offset.reset says (earliest for a sink)",
            next_step=f"run it, or keep its position: seamark groups show {reader.group} -o csv",
            reader=reader.subject,
        )
