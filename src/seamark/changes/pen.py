"""One pen for several lanes: what they write at the same time goes into the journal in one write."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from seamark.changes.entry import Entry, EntryKind
from seamark.changes.journal import JournalWriter
from seamark.errors import SeamarkError


@dataclass(slots=True)
class _Waiting:
    """What a lane wants to have written, and what became of it."""

    kind: EntryKind
    body: Mapping[str, Any]
    entry: Entry | None = None
    error: SeamarkError | None = None


@dataclass(slots=True)
class SharedPen:
    """A `JournalWriter` for many threads. An entry costs a round trip to brokers or disk; so those that wait share one.

    Whoever comes first writes for all that came meanwhile. Each `append` returns when its own entry is durable.
    """

    _writer: JournalWriter
    _queue: list[_Waiting] = field(default_factory=list)
    _gate: threading.Lock = field(default_factory=threading.Lock)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every entry of the change."""
        return self._writer.entries

    def append(self, kind: EntryKind, body: Mapping[str, Any]) -> Entry:
        """Write one entry, alone or with others. See `JournalWriter.append`."""
        mine = _Waiting(kind, body)
        with self._gate:
            self._queue.append(mine)
        with self._turn:
            if mine.entry is None and mine.error is None:
                self._write_all()
        if mine.error is not None:
            raise mine.error
        assert mine.entry is not None  # noqa: S101 - one of the two is set for everybody in the queue
        return mine.entry

    def append_all(self, bodies: Sequence[tuple[EntryKind, Mapping[str, Any]]]) -> tuple[Entry, ...]:
        """Write several entries."""
        return self._writer.append_all(bodies)

    def measure_age(self, number: int) -> float:
        """Return how long before the takeover an entry was written. See `JournalWriter.measure_age`."""
        return self._writer.measure_age(number)

    def release(self) -> None:
        """Give the locks back."""
        self._writer.release()

    def _write_all(self) -> None:
        with self._gate:
            batch, self._queue = self._queue, []
        try:
            entries = self._writer.append_all([(waiting.kind, waiting.body) for waiting in batch])
        except SeamarkError as error:
            # None of them may act: nobody knows which ones are written.
            for waiting in batch:
                waiting.error = error
            return
        for waiting, entry in zip(batch, entries, strict=True):
            waiting.entry = entry
