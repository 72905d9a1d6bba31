"""How far pipelines are and what they are doing, read from their tables, the brokers and the states they publish."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Any

from seamark.core.readings import Finding, Reading, Severity, fan_out
from seamark.errors import NotFoundError, RefusedError, SeamarkError
from seamark.groups.lag import Delay, Reader, read_delays
from seamark.kafka.api import BrokersPort
from seamark.kafka.groups import GroupOffsets
from seamark.kafka.model import LogOffsets, PartitionReading, TopicStatus
from seamark.pipelines.declared import PipelineSpec
from seamark.pipelines.progress import STALE_SECONDS, MemberState, RunReport, read_report
from seamark.report.words import build_time, render_count, render_duration, render_time
from seamark.tables.model import TableStatus


class LandState(StrEnum):
    """Where a landing stands."""

    NEW = "not begun"
    BEHIND = "behind"
    LANDED = "landed"
    LOST = "records are lost"


@dataclass(frozen=True, slots=True)
class PipelinePartition:
    """One partition: what the ledger says, None where it has no entry; and what the topic holds."""

    partition: int
    landed: int | None
    bounds: LogOffsets

    @property
    def next_offset(self) -> int:
        """The next offset to process; the first one of the log before the first run."""
        return self.bounds.earliest if self.landed is None else self.landed

    @property
    def behind(self) -> int:
        """How many offsets are not landed yet."""
        return max(0, self.bounds.latest - self.next_offset)

    @property
    def lost(self) -> int:
        """How many offsets were deleted before they were landed."""
        return 0 if self.landed is None else max(0, self.bounds.earliest - self.landed)


@dataclass(frozen=True, slots=True)
class LandPlan:
    """What a run would do: `statements` make the table fit, then records are landed from where each partition stands.

    It is also what is known of a landing at any time.
    """

    declared: PipelineSpec
    topic_id: str
    partitions: tuple[PipelinePartition, ...]
    statements: tuple[str, ...]
    # Entries of a topic of this name that is no more.
    former: int = 0

    @property
    def behind(self) -> int:
        """How many offsets are not landed yet."""
        return sum(one.behind for one in self.partitions)

    @property
    def state(self) -> LandState:
        """In one word."""
        if any(one.lost for one in self.partitions):
            return LandState.LOST
        if all(one.landed is None for one in self.partitions):
            return LandState.NEW
        return LandState.BEHIND if self.behind else LandState.LANDED

    @property
    def next_step(self) -> str:
        """The next command, or what to decide."""
        name = self.declared.landing.name
        if self.state is LandState.LOST:
            return f"accept the loss: seamark offsets move {self.declared.landing.owner} --to earliest"
        return "-" if self.state is LandState.LANDED else f"seamark pipelines run {name}"

    def require_whole(self) -> None:
        """Refuse a landing of which records are lost: its owner decides whether to continue without them."""
        if self.state is not LandState.LOST:
            return
        landing = self.declared.landing
        raise RefusedError(
            f"records of {landing.topic} were deleted before pipeline {landing.name} processed them",
            cause=", ".join(f"partition {one.partition}: {one.lost}" for one in self.partitions if one.lost),
            hint=f"accept the loss: seamark offsets move {landing.owner} --to earliest",
        )

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        landing = self.declared.landing
        return {
            "name": landing.name,
            "topic": landing.topic,
            "topic_id": self.topic_id,
            "store": landing.store,
            "where": self.declared.where,
            "table": landing.table,
            "mode": landing.mode.value,
            "state": self.state.value,
            "behind": self.behind,
            "statements": list(self.statements),
            "notes": list(self.declared.notes),
            "partitions": [
                {
                    "partition": one.partition,
                    "next_offset": one.landed,
                    "earliest": one.bounds.earliest,
                    "latest": one.bounds.latest,
                    "behind": one.behind,
                    "lost": one.lost,
                }
                for one in self.partitions
            ],
        }


def build_standings(bounds: Mapping[int, LogOffsets], landed: Mapping[int, int]) -> tuple[PipelinePartition, ...]:
    """Both side by side, by partition."""
    return tuple(PipelinePartition(number, landed.get(number), held) for number, held in sorted(bounds.items()))


CHECK = "pipelines.state"
"""The doctor's check of pipelines."""
# Enough to repair a pipeline on the next working day. For a topic that keeps records for less than two days, half of
# that: otherwise a lag of a second would be reported.
_HORIZON_SECONDS = 86_400.0
_WORST_FIRST = tuple(Severity)


class PipelineState(StrEnum):
    """What a pipeline is doing, as far as another process can tell."""

    STARTING = "starting"
    RUNNING = "running"
    RETRYING = "retrying"
    SUSPENDED = "suspended"
    ENDED = "ended"
    STALE = "stale"
    NOT_RUNNING = "not running"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """One pipeline at a point in time.

    Attributes:
        declared: The pipeline.
        at: The time, in seconds since the epoch.
        topic_id: The ID of its topic; empty if it couldn't be read.
        partitions: The offsets of each partition.
        delays: By partition with lag, how old the next record is.
        retention_seconds: How long the topic keeps records; None without a limit, or if it isn't known.
        table: What table and ledger say; None if they couldn't be read.
        report: What its run has published; an error if that couldn't be read.
        error: Why topic or table couldn't be read.
    """

    declared: PipelineSpec
    at: float
    topic_id: str = ""
    partitions: tuple[PipelinePartition, ...] = ()
    delays: Mapping[int, Delay] = field(default_factory=dict)
    retention_seconds: float | None = None
    table: TableStatus | None = None
    report: RunReport | SeamarkError | None = None
    error: SeamarkError | None = None

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self.declared.landing.name

    @property
    def state(self) -> PipelineState:
        """What it is doing."""
        if isinstance(self.report, SeamarkError):
            return PipelineState.UNKNOWN
        if self.report is None:
            return PipelineState.NOT_RUNNING
        is_silent = self.at - self.report.at_ms / 1000 > STALE_SECONDS
        if is_silent and self.report.state is not MemberState.ENDED:
            return PipelineState.STALE
        return PipelineState(self.report.state.value)

    @property
    def reason(self) -> str:
        """Why it is in this state; empty if nothing is wrong."""
        if isinstance(self.report, SeamarkError):
            return self.report.message
        if self.report is None:
            return ""
        if self.state is PipelineState.STALE:
            return f"no sign of its application since {format_ms(self.report.at_ms)}"
        return self.report.reason

    @property
    def retry_seconds(self) -> float | None:
        """How long until it is tried again; None if it isn't."""
        if self.state not in {PipelineState.RETRYING, PipelineState.SUSPENDED} or not isinstance(
            self.report, RunReport
        ):
            return None
        return max(0.0, self.report.retry_at_ms / 1000 - self.at)

    @property
    def lag(self) -> int | None:
        """How many offsets are not processed; None if that couldn't be read."""
        return sum(one.behind for one in self.partitions) if self.partitions else None

    @property
    def lag_seconds(self) -> float | None:
        """How old the oldest record is that is not processed: 0 without lag, None if that isn't known."""
        if not self.lag:
            return None if self.lag is None else 0.0
        return max((one.seconds for one in self.delays.values()), default=None)

    @property
    def lost(self) -> int:
        """How many offsets were deleted before they were processed."""
        return sum(one.lost for one in self.partitions)

    @property
    def seconds_left(self) -> float | None:
        """How long until retention may delete a record that is not processed; None if it doesn't."""
        # The first run begins with whatever is there.
        begun = {one.partition for one in self.partitions if one.landed is not None}
        ages = [delay.seconds for number, delay in self.delays.items() if number in begun]
        if self.retention_seconds is None or not ages:
            return None
        return max(0.0, self.retention_seconds - max(ages))

    @property
    def problems(self) -> tuple[Finding, ...]:
        """What is wrong with it, each with the next step."""
        return tuple(Finding(CHECK, severity, self.name, *texts) for severity, *texts in _list_problems(self))

    @property
    def severity(self) -> Severity:
        """The worst of its problems."""
        return min((one.severity for one in self.problems), key=_WORST_FIRST.index, default=Severity.OK)

    @property
    def last_commit(self) -> str | None:
        """When rows or offsets were last committed; None before the first run."""
        committed_at = self.table.committed_at if self.table is not None else None
        return None if committed_at is None else format_ms(committed_at * 1000)

    @property
    def application(self) -> str:
        """The application that has published its state."""
        return self.report.application if isinstance(self.report, RunReport) else ""

    def to_dict(self) -> dict[str, Any]:
        """Build its JSON."""
        landing, report = self.declared.landing, self.report if isinstance(self.report, RunReport) else None
        table = self.table or TableStatus({})
        return {
            "name": self.name,
            "topic": landing.topic,
            "topic_id": self.topic_id,
            "store": landing.store,
            "where": self.declared.where,
            "table": landing.table,
            "mode": landing.mode.value,
            "rows": table.rows,
            "rows_estimated": table.is_estimate,
            "lag": self.lag,
            "lag_seconds": self.lag_seconds,
            "lost": self.lost,
            "retention_seconds_left": self.seconds_left,
            "last_commit": self.last_commit,
            "state": self.state.value,
            "reason": self.reason,
            "retry_seconds": self.retry_seconds,
            "application": self.application,
            "host": report.host if report else "",
            "published_at": format_ms(report.at_ms) if report else None,
            "severity": self.severity.value,
            "problems": [
                {"severity": one.severity.value, "message": one.message, "fix": one.fix} for one in self.problems
            ],
            "partitions": [_build_partition(one, self.delays.get(one.partition)) for one in self.partitions],
        }


def _build_partition(one: PipelinePartition, delay: Delay | None) -> dict[str, Any]:
    return {
        "partition": one.partition,
        "next_offset": one.landed,
        "earliest": one.bounds.earliest,
        "latest": one.bounds.latest,
        "lag": one.behind,
        "lag_seconds": delay.seconds if delay is not None else None if one.behind else 0.0,
        "lost": one.lost,
    }


def format_ms(milliseconds: float) -> str:
    """Format a time since the epoch."""
    return render_time(build_time(milliseconds))


def _list_problems(status: PipelineStatus) -> Iterator[tuple[Severity, str, str]]:
    landing = status.declared.landing
    if status.error is not None:
        yield Severity.ERROR, status.error.message, status.error.hint or status.error.cause
    if status.lost:
        accept = f"accept the loss: seamark offsets move {landing.owner} --to earliest"
        yield (
            Severity.ERROR,
            f"records were deleted before they were processed: {render_count(status.lost, 'offset')}",
            accept,
        )
    yield from _list_state_problems(status)
    left = status.seconds_left
    if left is not None and left < min(_HORIZON_SECONDS, (status.retention_seconds or 0.0) / 2):
        when = f"in {render_duration(left)}" if left else "at any time"
        fix = "make the pipeline process its lag, or keep records for longer: "
        fix += f"seamark topics update {landing.topic} --config retention.ms=MILLISECONDS"
        yield Severity.ERROR, f"retention deletes records that are not processed {when}", fix


def _list_state_problems(status: PipelineStatus) -> Iterator[tuple[Severity, str, str]]:
    state, name = status.state, status.name
    text = f"{state}: {status.reason}" if status.reason else state.value
    if state is PipelineState.SUSPENDED:
        yield Severity.ERROR, text, "correct the cause; the pipeline is retried automatically"
    elif state is PipelineState.RETRYING:
        yield Severity.WARNING, text, "wait; the pipeline is retried automatically"
    elif state is PipelineState.STALE:
        yield Severity.ERROR, text, "start its application: seamark pipelines run"
    elif state is PipelineState.UNKNOWN and isinstance(status.report, SeamarkError):
        yield Severity.WARNING, text, status.report.hint or f"grant DESCRIBE on group {status.declared.landing.group}"
    elif state is PipelineState.ENDED and status.reason:
        yield Severity.ERROR, text, f"correct the cause, then run it again: seamark pipelines run {name}"
    elif state in {PipelineState.ENDED, PipelineState.NOT_RUNNING} and status.declared.every_seconds is not None:
        yield Severity.WARNING, text, f"run it: seamark pipelines run {name}"


def find_retention_seconds(topic: TopicStatus) -> float | None:
    """Find how long a topic keeps records; None without a limit, or if the brokers don't report it."""
    retention = topic.config("retention.ms")
    if "delete" not in topic.config("cleanup.policy").split(",") or not retention.isdecimal():
        return None
    return int(retention) / 1000


def explain_missing(error: SeamarkError, declared: PipelineSpec) -> SeamarkError:
    """Return the error of a topic that can't be read; of one that doesn't exist, with what to do."""
    if isinstance(error, NotFoundError):
        name = declared.landing.topic
        error.hint = f"check from.topic at {declared.place}, or create the topic: seamark topics create {name}"
    return error


class StatusReader:
    """Reads the status of many pipelines: the brokers with a few requests for all, the tables concurrently."""

    def __init__(self, kafka: BrokersPort, *, now: Callable[[], float]) -> None:
        self._kafka = kafka
        self._now = now

    def read(self, specs: Sequence[PipelineSpec]) -> tuple[PipelineStatus, ...]:
        """Read them. What can't be read of one is an error of that one."""
        if not specs:
            return ()
        tables = fan_out({one.landing.name: partial(_read_table, one) for one in specs})
        topics = self._kafka.read_topics(list(dict.fromkeys(one.landing.topic for one in specs)))
        known = {topic.name: topic for topic in topics}
        bounds = self._kafka.read_bounds([spot for topic in topics for spot in topic.spots])
        groups = self._kafka.read_committed({one.landing.group: None for one in specs})
        reports = _read_reports(groups)
        found = []
        for one in specs:
            name, topic = one.landing.name, known.get(one.landing.topic)
            failure = topics.failures.get(one.landing.topic) or _find_failure(bounds, topic)
            error = explain_missing(failure, one) if failure else tables.failures.get(name)
            table = tables.results.get(name)
            status = PipelineStatus(
                one,
                self._now(),
                topic_id=topic.topic_id if topic else "",
                partitions=_build_partitions(topic, bounds.found, table),
                retention_seconds=find_retention_seconds(topic) if topic else None,
                table=table,
                report=reports.get(one.landing.group),
                error=error,
            )
            found.append(status)
        return self._add_delays(found)

    def _add_delays(self, found: Sequence[PipelineStatus]) -> tuple[PipelineStatus, ...]:
        """Add how old the next record of each partition with lag is, in a few requests for all."""
        readers: dict[str, dict[int, Reader]] = {
            one.name: {
                part.partition: ((one.declared.landing.topic, part.partition), part.next_offset)
                for part in one.partitions
                if part.behind
            }
            for one in found
        }
        ends = {
            (one.declared.landing.topic, part.partition): part.bounds.latest for one in found for part in one.partitions
        }
        wanted = [reader for own in readers.values() for reader in own.values()]
        if not wanted:
            return tuple(found)
        delays = read_delays(self._kafka, wanted, ends, now_ms=round(self._now() * 1000))
        return tuple(
            replace(one, delays={number: delays[at] for number, at in readers[one.name].items() if at in delays})
            for one in found
        )


def _read_table(spec: PipelineSpec) -> TableStatus:
    return spec.open_table().read_status()


def _find_failure(bounds: PartitionReading[LogOffsets], topic: TopicStatus | None) -> SeamarkError | None:
    spots = topic.spots if topic is not None else ()
    return next((bounds.failures[spot] for spot in spots if spot in bounds.failures), None)


def _build_partitions(
    topic: TopicStatus | None, bounds: Mapping[tuple[str, int], LogOffsets], table: TableStatus | None
) -> tuple[PipelinePartition, ...]:
    """Build the offsets of each partition; none if the ledger couldn't be read, because any lag would be wrong."""
    if topic is None or table is None:
        return ()
    landed = {
        number: entry.next_offset for (topic_id, number), entry in table.entries.items() if topic_id == topic.topic_id
    }
    return build_standings({number: bounds[_, number] for _, number in topic.spots if (_, number) in bounds}, landed)


def _read_reports(groups: Reading[GroupOffsets]) -> dict[str, RunReport | SeamarkError]:
    """Read what runs have published, by group. Of several, the newest: a topic may have been replaced."""
    found: dict[str, RunReport | SeamarkError] = dict(groups.failures)
    for group in groups:
        reports: list[RunReport] = []
        for committed in group.offsets.values():
            try:
                reports += [read_report(committed.metadata)] if committed.metadata else []
            except SeamarkError as error:
                found[group.group] = error
        if reports:
            found[group.group] = max(reports, key=lambda one: one.at_ms)
    return found
