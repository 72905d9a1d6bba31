"""Detect committed offsets that are out of the log's range, that soon will be, or that belong to another log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from seamark.core.readings import Severity
from seamark.kafka.groups import Committed
from seamark.kafka.model import LogOffsets, TopicStatus
from seamark.report.words import render_bytes, render_count, render_duration
from seamark.topics.health_model import (
    WARN_AT,
    HealthCheck,
    HealthEvidence,
    Reader,
    TopicFinding,
    find_retention_bytes,
    find_retention_ms,
)


class _Position(NamedTuple):
    number: int
    commit: Committed
    bounds: LogOffsets


def examine_readers(evidence: HealthEvidence) -> Iterator[TopicFinding]:
    """Check recreated, reader-passed, reader-nearly-passed: one finding for each consumer and topic."""
    for reader in evidence.readers:
        commits: dict[str, dict[int, Committed]] = {}
        for (name, number), commit in sorted(reader.offsets.items()):
            commits.setdefault(name, {})[number] = commit
        for name, held in commits.items():
            topic = evidence.topics.get(name)
            if topic is None:
                continue
            yield from _find_recreated(reader, topic, held, evidence)
            positions = _list_positions(topic, held, evidence)
            yield from _find_passed(reader, topic, positions)
            yield from _find_passing(reader, topic, positions, evidence)
            yield from _find_outgrown(reader, topic, positions, evidence)


def _list_positions(topic: TopicStatus, held: Mapping[int, Committed], evidence: HealthEvidence) -> list[_Position]:
    """Return the committed offsets for partitions whose log offsets are known."""
    return [
        _Position(number, commit, bounds)
        for number, commit in held.items()
        if (bounds := evidence.bounds.get((topic.name, number))) and commit.offset <= bounds.latest
    ]


def _find_recreated(
    reader: Reader, topic: TopicStatus, held: Mapping[int, Committed], evidence: HealthEvidence
) -> Iterator[TopicFinding]:
    clues: dict[int, str] = {}
    count = len(topic.partitions)
    for number, commit in held.items():
        spot = (topic.name, number)
        bounds, epoch = evidence.bounds.get(spot), evidence.epochs.get(spot)
        if number >= count:
            clues[number] = f"partition {number} has a committed offset, but the topic has {count} partitions"
        elif bounds and commit.offset > bounds.latest:
            clues[number] = f"the committed offset is {commit.offset}, but the log ends at {bounds.latest}"
        elif commit.leader_epoch is not None and epoch is not None and commit.leader_epoch > epoch:
            # The leader epochs of a topic only increase.
            clues[number] = (
                f"the offset was committed in leader epoch {commit.leader_epoch}, but the leader epoch is {epoch}"
            )
    if clues:
        yield TopicFinding(
            HealthCheck.RECREATED,
            Severity.ERROR if reader.is_needed else Severity.WARNING,
            topic.name,
            tuple(clues),
            what=f"the committed offsets of {reader.subject} belong to another log: {next(iter(clues.values()))}",
            why="the topic was recreated or truncated: the consumer silently skips or reprocesses records",
            next_step=_say_move(reader, topic, "earliest"),
            reader=reader.subject,
        )


def _find_passed(reader: Reader, topic: TopicStatus, positions: Sequence[_Position]) -> Iterator[TopicFinding]:
    lost = {found.number: found.bounds.earliest - found.commit.offset for found in positions}
    lost = {number: count for number, count in lost.items() if count > 0}
    if lost:
        yield TopicFinding(
            HealthCheck.READER_PASSED,
            Severity.ERROR if reader.is_needed else Severity.INFO,
            topic.name,
            tuple(lost),
            what=f"{render_count(sum(lost.values()), 'record')} deleted before {reader.subject} read them",
            why="it resumes from the offset of auto.offset.reset: the earliest record or the end of the log",
            next_step=_say_leftover(reader)
            or f"produce the lost records again from their source, then {_say_move(reader, topic, 'earliest')}",
            reader=reader.subject,
        )


def _find_passing(
    reader: Reader, topic: TopicStatus, positions: Sequence[_Position], evidence: HealthEvidence
) -> Iterator[TopicFinding]:
    kept_ms = find_retention_ms(topic)
    old: dict[int, int] = {}
    for found in positions:
        spot = (topic.name, found.number)
        if spot in evidence.aged and found.commit.offset >= found.bounds.earliest:
            young = evidence.aged[spot]
            old[found.number] = (found.bounds.latest if young is None else young) - found.commit.offset
    old = {number: count for number, count in old.items() if count > 0}
    if old and kept_ms is not None:
        rest = render_duration(kept_ms * (1 - WARN_AT) / 1000)
        yield _build_passing(
            reader,
            topic,
            tuple(old),
            what=f"{render_count(sum(old.values()), 'record')} that {reader.subject} has not read "
            f"{'is' if sum(old.values()) == 1 else 'are'} older than {WARN_AT:.0%} of retention.ms "
            f"({render_duration(kept_ms / 1000)})",
            why=f"the brokers may delete them within {rest}, or later, because they delete whole segments",
        )


def _find_outgrown(
    reader: Reader, topic: TopicStatus, positions: Sequence[_Position], evidence: HealthEvidence
) -> Iterator[TopicFinding]:
    limit, size = find_retention_bytes(topic), evidence.sizes.get(topic.name)
    if limit is None or size is None:
        return
    ahead: dict[int, int] = {}
    bytes_held = size.by_partition
    for found in positions:
        records = found.bounds.records
        if records and found.commit.offset >= found.bounds.earliest:
            unread = found.bounds.latest - found.commit.offset
            # Kafka does not report bytes by offset, so all records of a partition are assumed to have the same size.
            ahead[found.number] = bytes_held.get(found.number, 0) * unread // records
    close = {number: count for number, count in ahead.items() if count > limit * WARN_AT}
    if close:
        yield _build_passing(
            reader,
            topic,
            tuple(close),
            what=f"the lag of {reader.subject} is about {render_bytes(max(close.values()))}, "
            f"and retention.bytes is {render_bytes(limit)}",
            why="the brokers may delete unread records as soon as more are written",
        )


def _build_passing(
    reader: Reader, topic: TopicStatus, partitions: tuple[int, ...], *, what: str, why: str
) -> TopicFinding:
    longer = (
        f"wait until it has caught up, or increase the retention: seamark topics update {topic.name} --config "
        "retention.ms=…"
    )
    return TopicFinding(
        HealthCheck.READER_NEARLY_PASSED,
        Severity.WARNING if reader.is_needed else Severity.INFO,
        topic.name,
        partitions,
        what=what,
        why=why,
        next_step=_say_leftover(reader) or longer,
        reader=reader.subject,
    )


def _say_leftover(reader: Reader) -> str:
    return (
        ""
        if reader.is_needed
        else f"if group {reader.group} is not used any more: seamark groups delete {reader.group}"
    )


def _say_move(reader: Reader, topic: TopicStatus, where: str) -> str:
    move = f"seamark groups move {reader.group} --to {where} --topic {topic.name}"
    if reader.sinks:
        return f"stop {reader.subject}, then {move}"
    return move if reader.is_quiet else f"stop its members, then {move}"
