"""How a run of a landing goes, in numbers: for the one who watches it, and as a file of Prometheus."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seamark.core.files import write_atomically
from seamark.errors import UsageError

if TYPE_CHECKING:
    from seamark.pipelines.binding import RetryWait


OBSERVED = "seamark_pipeline"
"""The name under which a query tells what it has seen of its records: `records`, and `newest` in milliseconds."""


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

    `newest` is the timestamp of its newest record, in milliseconds since the epoch; None where it had none. `behind` is
    None where Spark does not report it. An idle query reports batches without records now and then.
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


def build_progress(told: Mapping[str, Any]) -> LandProgress:
    """Read the JSON of a query's progress."""
    observed = (told.get("observedMetrics") or {}).get(OBSERVED) or {}
    records = observed.get("records")
    return LandProgress(
        int(told["batchId"]),
        records=int(told.get("numInputRows") or 0) if records is None else int(records),
        seconds=(told.get("batchDuration") or 0) / 1000,
        behind=_count_behind(told.get("sources") or ()),
        newest=observed.get("newest"),
    )


def _count_behind(sources: Any) -> int | None:
    """The offsets between where the batch ended and where the topic did."""
    for source in sources:
        end, latest = source.get("endOffset"), source.get("latestOffset")
        if isinstance(end, Mapping) and isinstance(latest, Mapping):
            left: int = sum(
                max(0, offset - end.get(topic, {}).get(number, 0))
                for topic, offsets in latest.items()
                for number, offset in offsets.items()
            )
            return left
    return None


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
        if file is not None and not file.absolute().parent.is_dir():
            raise UsageError(
                f"invalid value {str(file)!r} for --metrics: its folder does not exist", hint="create the folder"
            )

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
            self._write()

    def render(self) -> str:
        """The text that Prometheus reads."""
        return "".join(self._build_lines())

    def _write(self) -> None:
        if self._file is None:
            return
        try:
            write_atomically(self.render().encode(), self._file, mode=_MODE)
        except OSError as error:
            # The rows are landed. A full disk of the monitoring does not justify stopping.
            _LOGGER.warning("could not write metrics file %s: %s", self._file, error.strerror)

    def _build_lines(self) -> Iterator[str]:
        last = self.last
        yield from self._build("batches_total", "counter", self.batches, "Batches written by this run.")
        yield from self._build("rows_total", "counter", self.rows, "Rows written by this run.")
        yield from self._build("deleted_total", "counter", self.deleted, "Rows deleted by this run.")
        yield from self._build(
            "dead_letters_total", "counter", self.dead, "Records stored as dead letters by this run."
        )
        yield from self._build("records_total", "counter", self.records, "Records read by this run.")
        yield from self._build(
            "retries_total", "counter", self.retries, "Attempts that failed because a server was unreachable."
        )
        yield from self._build(
            "retry_pause_seconds",
            "gauge",
            self._pause_seconds,
            "Pause before the next attempt; 0 if there is no outage.",
        )
        yield from self._build(
            "last_batch_timestamp_seconds", "gauge", self._landed_at, "Time when the last batch was committed."
        )
        yield from self._build(
            "newest_record_timestamp_seconds",
            "gauge",
            None if self.newest is None else self.newest / 1000,
            "Timestamp of the newest record that was read.",
        )
        if last is not None:
            yield from self._build("batch_seconds", "gauge", last.seconds, "Duration of the last batch.")
            yield from self._build("records_per_second", "gauge", last.rate, "Records per second of the last batch.")
            yield from self._build("behind_records", "gauge", last.behind, "Lag: offsets after the last batch.")

    def _build(self, key: str, kind: str, value: float | None, words: str) -> Iterator[str]:
        """One metric. The name of a landing has no character that would have to be escaped."""
        if value is None:
            return
        name = f"seamark_pipeline_{key}"
        yield f'# HELP {name} {words}\n# TYPE {name} {kind}\n{name}{{pipeline="{self._name}"}} {value!r}\n'


def _keep_pace(last: LandProgress, idle: LandProgress) -> LandProgress:
    """Nothing came: how far it is behind is news, and how fast the last batch was stays."""
    return replace(last, behind=idle.behind)
