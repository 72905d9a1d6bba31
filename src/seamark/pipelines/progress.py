"""How a run of a landing goes, in numbers: for the one who watches it, and as a file of Prometheus."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from seamark.core.files import write_atomically
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
            yield "behind_records", "gauge", last.behind, "Lag: offsets after the last batch."

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
