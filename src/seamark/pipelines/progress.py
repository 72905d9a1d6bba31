"""What a run reports: its figures, as a file for Prometheus too, and the state of each pipeline for other processes."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from socket import gethostname
from types import TracebackType
from typing import TYPE_CHECKING, Self

from seamark.core import strict_json as strict
from seamark.core.files import write_atomically
from seamark.core.secrets import mask_text
from seamark.core.strict_json import StoredFormat, check_format
from seamark.errors import UsageError

if TYPE_CHECKING:
    from seamark.pipelines.binding import RetryWait


@dataclass(frozen=True, slots=True)
class BatchLanded:
    """What one batch of a run has landed."""

    number: int
    rows: int
    deleted: int
    dead: int


@dataclass(frozen=True, slots=True)
class LandProgress:
    """One batch: its records, how long it took, and how many offsets lay behind it then.

    `newest` is the timestamp of its newest record, in milliseconds since the epoch; None where it had none.
    """

    batch: int
    records: int
    seconds: float
    behind: int | None = None
    newest: int | None = None

    @property
    def rate(self) -> float:
        """Records per second."""
        return self.records / self.seconds if self.seconds > 0 else 0.0


class MemberState(StrEnum):
    """What a pipeline of an application is doing."""

    STARTING = "starting"
    RUNNING = "running"
    RETRYING = "retrying"
    SUSPENDED = "suspended"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """How a pipeline of an application is doing.

    Attributes:
        name: The pipeline.
        state: What it is doing.
        reason: Why it is suspended or retried.
        retry_seconds: The pause before the next try.
        lag: Offsets behind the last batch, at the last look; None before it.
    """

    name: str
    state: MemberState
    reason: str = ""
    retry_seconds: float = 0.0
    lag: int | None = None


@dataclass(frozen=True, slots=True)
class PipelineLag:
    """How much a pipeline has not processed. `seconds` is the age of the oldest such record; None if it isn't known."""

    records: int
    seconds: float | None = None


_LOGGER = logging.getLogger("seamark.fleet")
# As node_exporter's collector of text files requires; no other process needs to write it.
_MODE = 0o644


class LandMetrics:
    """The metrics of one run. Batches and their progress come from two threads, the progress some time after the batch.

    A file, if given, is replaced after each of them. Counters begin with the run.
    """

    def __init__(self, name: str, *, file: Path | None = None, now: Callable[[], float] = time.time) -> None:
        self._name = name
        self._file = file
        self._now = now
        self._lock = threading.Lock()
        self.batches = self.rows = self.deleted = self.dead = self.records = 0
        self.last: LandProgress | None = None
        self.newest: int | None = None
        self._landed_at: float | None = None
        self.retries = 0
        self._pause_seconds = 0.0
        self._is_suspended = False
        self._lag: PipelineLag | None = None
        check_metrics_file(file)

    def landed(self, batch: BatchLanded) -> None:
        """Count what a batch has landed: it is in the database."""
        with self._lock:
            self.batches += 1
            self.rows += batch.rows
            self.deleted += batch.deleted
            self.dead += batch.dead
            self._landed_at = self._now()
            self._pause_seconds = 0.0
            self._write()

    def waiting(self, wait: RetryWait) -> None:
        """Take that something can't be reached, and when it is tried again."""
        with self._lock:
            self.retries += 1
            self._pause_seconds = wait.seconds
            self._write()

    def progressed(self, progress: LandProgress) -> None:
        """Add the progress that Spark reports for a batch."""
        with self._lock:
            self.records += progress.records
            self.last = progress if progress.records or self.last is None else _keep_pace(self.last, progress)
            if progress.newest is not None:
                self.newest = max(progress.newest, self.newest or 0)
            if progress.behind is not None:
                self._lag = PipelineLag(progress.behind, None if progress.behind else 0.0)
            self._write()

    def measured(self, lag: PipelineLag) -> None:
        """Take the lag, which also changes while there is no batch."""
        with self._lock:
            self._lag = lag
            self._write()

    def set_state(self, *, is_suspended: bool) -> None:
        """Take whether it is suspended."""
        with self._lock:
            self._is_suspended = is_suspended
            self._write()

    def render(self) -> str:
        """Return the text that Prometheus reads."""
        return render_metrics([self])

    def _write(self) -> None:
        if self._file is not None:
            write_metrics(self.render(), self._file)

    def list_samples(self) -> Iterator[tuple[str, str, float | None, str]]:
        """Yield each metric: its name, type, value and description. A value of None is not known yet."""
        last = self.last
        yield "batches_total", "counter", self.batches, "Batches written by this run."
        yield "rows_total", "counter", self.rows, "Rows written by this run."
        yield "deleted_total", "counter", self.deleted, "Rows deleted by this run."
        yield "dead_letters_total", "counter", self.dead, "Records stored as dead letters by this run."
        yield "records_total", "counter", self.records, "Records read by this run."
        yield "retries_total", "counter", self.retries, "Attempts that failed because a server was unreachable."
        yield (
            "retry_pause_seconds",
            "gauge",
            self._pause_seconds,
            "Pause before the next attempt; 0 if there is no outage.",
        )
        yield "suspended", "gauge", int(self._is_suspended), "1 if the pipeline is suspended because of an error."
        yield "last_batch_timestamp_seconds", "gauge", self._landed_at, "Time when the last batch was committed."
        newest = None if self.newest is None else self.newest / 1000
        yield "newest_record_timestamp_seconds", "gauge", newest, "Timestamp of the newest record that was read."
        if last is not None:
            yield "batch_seconds", "gauge", last.seconds, "Duration of the last batch."
            yield "records_per_second", "gauge", last.rate, "Records per second of the last batch."
        if (lag := self._lag) is not None:
            yield "behind_records", "gauge", lag.records, "Lag: offsets that are not processed."
            yield "lag_seconds", "gauge", lag.seconds, "Age of the oldest record that is not processed; 0 without lag."

    @property
    def name(self) -> str:
        """The pipeline."""
        return self._name


def render_metrics(metrics: Iterable[LandMetrics]) -> str:
    """Return the text that Prometheus reads for many pipelines: each metric once, with a sample for each of them."""
    heads: dict[str, str] = {}
    samples: dict[str, list[str]] = {}
    for one in metrics:
        for key, kind, value, words in one.list_samples():
            if value is None:
                continue
            name = f"seamark_pipeline_{key}"
            heads[name] = f"# HELP {name} {words}\n# TYPE {name} {kind}\n"
            # The name of a pipeline has no character that would have to be escaped.
            samples.setdefault(name, []).append(f'{name}{{pipeline="{one.name}"}} {value!r}\n')
    return "".join(head + "".join(samples[name]) for name, head in heads.items())


def write_metrics(text: str, file: Path) -> None:
    """Replace the metrics file. A failure is logged only."""
    try:
        write_atomically(text.encode(), file, mode=_MODE)
    except OSError as error:
        # The rows are written. A full disk of the monitoring does not justify stopping.
        _LOGGER.warning("could not write metrics file %s: %s", file, error.strerror)


def check_metrics_file(file: Path | None) -> None:
    """Refuse a metrics file whose folder does not exist."""
    if file is not None and not file.absolute().parent.is_dir():
        raise UsageError(
            f"invalid value {str(file)!r} for --metrics: its folder does not exist", hint="create the folder"
        )


def _keep_pace(last: LandProgress, idle: LandProgress) -> LandProgress:
    """Nothing came: how far it is behind is news, and how fast the last batch was stays."""
    return replace(last, behind=idle.behind)


FORMAT = StoredFormat("pipeline state", 1)
HEARTBEAT_SECONDS = 60.0
"""How often a state is published that hasn't changed."""
# How often states are compared with what was published, and how often the lag is measured.
_TICK_SECONDS, _MEASURE_SECONDS = 1.0, 30.0
STALE_SECONDS = 3 * HEARTBEAT_SECONDS
"""After so long without a sign of it, an application has ended or can't reach the brokers."""
# Brokers accept 4,096 bytes by default (offset.metadata.max.bytes). A character takes up to 6 bytes in JSON.
_LONGEST_REASON, _LONGEST_NAME = 500, 100
_KEYS = (*FORMAT.field, "state", "at", "reason", "retry_at", "application", "host")


@dataclass(frozen=True, slots=True)
class RunReport:
    """The state of a pipeline, as its run publishes it in the metadata of the offsets of its group.

    Attributes:
        state: What the pipeline is doing.
        at_ms: When that was published, in milliseconds since the epoch.
        reason: Why it is suspended or retried, or has ended. Without secrets.
        retry_at_ms: When it is tried again; 0 if it isn't.
        application: The name of the application that runs it.
        host: The machine of its driver.
    """

    state: MemberState
    at_ms: int
    reason: str = ""
    retry_at_ms: int = 0
    application: str = ""
    host: str = ""

    def to_metadata(self) -> str:
        """Build the text that goes with the offsets."""
        values = (self.state.value, self.at_ms, self.reason, self.retry_at_ms, self.application, self.host)
        body = dict(zip(_KEYS, (FORMAT.version, *values), strict=True))
        return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def read_report(metadata: str) -> RunReport:
    """Read what `to_metadata` built.

    Raises:
        FormatVersionError: Another version of seamark wrote it.
        UsageError: It isn't the state of a pipeline.
    """
    what = "the published state of a pipeline"
    found = strict.read_json(metadata, what=what)
    check_format(FORMAT, found, where=what)
    fields = strict.read_object(found, keys=_KEYS, what=what)
    return RunReport(
        strict.read_word(fields["state"], words=MemberState, what=what),
        strict.read_count(fields["at"], what=what),
        strict.read_text(fields["reason"], what=what),
        strict.read_count(fields["retry_at"], what=what),
        strict.read_text(fields["application"], what=what),
        strict.read_text(fields["host"], what=what),
    )


@dataclass(slots=True)
class _Published:
    """One pipeline: how its state is published, the state now, and what was published last."""

    publish: Callable[[RunReport], bool]
    report: RunReport | None = None
    last: RunReport | None = None


class StatusPublisher:
    """Publishes the states of pipelines, so that other processes can read them.

    It has a thread of its own: neither a long batch delays it, nor do brokers that don't answer delay the batches.
    """

    def __init__(
        self,
        application: str,
        *,
        measure: Callable[[], None] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Create it. `measure` is called every 30 s, in the same thread."""
        self._application = application[:_LONGEST_NAME]
        self._host = gethostname()[:_LONGEST_NAME]
        self._measure = measure
        self._now = now
        self._lock = threading.Lock()
        self._members: dict[str, _Published] = {}
        self._measured_at = 0.0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="seamark-status", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()
        self.end_all()

    def add(self, name: str, publish: Callable[[RunReport], bool]) -> None:
        """Add a pipeline. `publish` returns whether it succeeded."""
        with self._lock:
            self._members[name] = _Published(publish)

    def note(self, status: MemberStatus) -> None:
        """Take the state of a pipeline."""
        now_ms = round(self._now() * 1000)
        report = RunReport(
            status.state,
            now_ms,
            _clean(status.reason)[:_LONGEST_REASON],
            now_ms + round(status.retry_seconds * 1000) if status.retry_seconds else 0,
            self._application,
            self._host,
        )
        with self._lock:
            if (member := self._members.get(status.name)) is not None:
                member.report = report

    def publish_due(self) -> None:
        """Publish the states that have changed, and those that were published a while ago."""
        for name, member in self._list_due():
            report = member.report
            if report is None or self._end.is_set():
                continue
            # A failure isn't repeated before the next heartbeat: brokers that don't answer take a while to tell.
            member.publish(replace(report, at_ms=round(self._now() * 1000)))
            member.last = replace(report, at_ms=round(self._now() * 1000))
            if report.state is MemberState.ENDED:
                self._remove(name, member)

    def end_all(self) -> None:
        """Publish that all pipelines have ended, until one can't be published."""
        for member in list(self._members.values()):
            report = member.report
            if report is None or (member.last is not None and member.last.state is MemberState.ENDED):
                continue
            ended = report if report.state is MemberState.ENDED else RunReport(MemberState.ENDED, 0)
            named = replace(ended, at_ms=round(self._now() * 1000), application=self._application, host=self._host)
            if not member.publish(named):
                return

    def _list_due(self) -> list[tuple[str, _Published]]:
        limit = (self._now() - HEARTBEAT_SECONDS) * 1000
        with self._lock:
            return [
                (name, one)
                for name, one in self._members.items()
                if one.report is not None
                and (one.last is None or one.last.at_ms <= limit or _has_changed(one.last, one.report))
            ]

    def _remove(self, name: str, member: _Published) -> None:
        with self._lock:
            # A pipeline that was applied with changes may be there again.
            if self._members.get(name) is member:
                del self._members[name]

    def _run(self) -> None:
        while not self._end.wait(_TICK_SECONDS):
            try:
                self.publish_due()
                self._measure_due()
            except Exception as error:
                # A thread that ends would let every state become stale.
                _LOGGER.warning("could not publish the states of pipelines", exc_info=error)

    def _measure_due(self) -> None:
        if self._measure is not None and self._now() - self._measured_at >= _MEASURE_SECONDS:
            self._measured_at = self._now()
            self._measure()


def _clean(reason: str) -> str:
    """Return a reason without secrets, and as UTF-8 can encode it: it may quote bytes of a record."""
    return mask_text(reason).encode(errors="replace").decode()


def _has_changed(last: RunReport, report: RunReport) -> bool:
    return (last.state, last.reason, last.retry_at_ms) != (report.state, report.reason, report.retry_at_ms)
