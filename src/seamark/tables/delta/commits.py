"""The offsets of a pipeline in a commit of its table, and how long Delta keeps the commit."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from seamark.core.strict_json import StoredFormat, check_format
from seamark.errors import RefusedError
from seamark.tables.model import LedgerEntry

_PROPERTY = "delta.logRetentionDuration"
_INTERVAL = re.compile(r"\s*(?:interval\s+)?(\d+)\s+([a-z]+?)s?\s*", re.IGNORECASE)
_MS = {
    "millisecond": 1,
    "second": 1_000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 7 * 86_400_000,
}
_LONGEST_MS = 7 * _MS["day"]
# Of the retention: there must be time for a run to fail and to be restarted.
_SHARE = 4


def find_renewal_ms(configuration: Mapping[str, str | None]) -> int:
    """Find how old the commit with the offsets may become before they are committed once more.

    Args:
        configuration: The properties of the table.

    Returns:
        Milliseconds: a quarter of the retention, at most seven days. A retention that can't be read counts as a day.
    """
    value = configuration.get(_PROPERTY)
    if value is None:
        return _LONGEST_MS
    found = _INTERVAL.fullmatch(value)
    unit = _MS.get(found[2].lower()) if found else None
    retention = int(found[1]) * unit if found and unit else _MS["day"]
    return min(_LONGEST_MS, retention // _SHARE)


FORMAT = StoredFormat("Delta commit", 1)

_OWNER, _RUN, _OFFSETS, _TOPIC, _NEXT = "owner", "run", "offsets", "topic", "next"
_TIMES, _SINCE, _NEWEST, _HELD = "record_times", "since", "newest", "held_until"


@dataclass(frozen=True, slots=True)
class RecordTimes:
    """The times of the records that a pipeline has processed, in milliseconds.

    Attributes:
        since: The first record after the last long silence of the topic.
        newest: The newest record.
    """

    since: int
    newest: int


@dataclass(frozen=True, slots=True)
class CommitOffsets:
    """The offsets of a pipeline in one commit. `run` identifies the commit: each attempt has its own."""

    owner: str
    run: str
    entries: tuple[LedgerEntry, ...] = ()
    times: RecordTimes | None = None
    # In milliseconds since the epoch: no run begins before. Nothing depends on it but who comes first.
    held_until: int = 0

    def by_key(self) -> dict[tuple[str, int], LedgerEntry]:
        """The entries by the topic's id and the partition."""
        return {entry.key: entry for entry in self.entries}

    def to_json(self) -> str:
        """Return the text of `userMetadata`, which DESCRIBE HISTORY shows."""
        topics: dict[str, dict[str, Any]] = {}
        for entry in self.entries:
            topic = topics.setdefault(entry.topic_id, {_TOPIC: entry.topic, _NEXT: {}})
            topic[_NEXT][str(entry.partition)] = entry.next_offset
        times = {} if self.times is None else {_TIMES: {_SINCE: self.times.since, _NEWEST: self.times.newest}}
        held = {_HELD: self.held_until} if self.held_until else {}
        return json.dumps({**FORMAT.field, _OWNER: self.owner, _RUN: self.run, _OFFSETS: topics, **times, **held})


def read_vector(text: object, *, place: str) -> CommitOffsets:
    """Read what `to_json` gave.

    Raises:
        FormatVersionError: it has another format version, or none.
        RefusedError: it is nothing of ours.
    """
    try:
        found = json.loads(text) if isinstance(text, str) else {}
        check_format(FORMAT, found, where=f"the commit {place}")
        times = None if (told := found.get(_TIMES)) is None else RecordTimes(int(told[_SINCE]), int(told[_NEWEST]))
        entries, held = tuple(_read_entries(found[_OFFSETS])), int(found.get(_HELD, 0))
        return CommitOffsets(str(found[_OWNER]), str(found[_RUN]), entries, times, held_until=held)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RefusedError(
            f"can't read commit {place}",
            cause=f"its userMetadata does not contain the offsets of a pipeline: {error}",
            hint="stop the other program: only seamark may commit with the application ID of a pipeline",
        ) from None


def _read_entries(topics: Mapping[str, Mapping[str, Any]]) -> Iterable[LedgerEntry]:
    for topic_id, topic in topics.items():
        for number, offset in topic[_NEXT].items():
            _check(
                isinstance(offset, int) and not isinstance(offset, bool) and offset >= 0, f"invalid offset {offset!r}"
            )
            yield LedgerEntry(str(topic[_TOPIC]), topic_id, int(number), next_offset=offset)


def _check(is_so: bool, problem: str) -> None:
    if not is_so:
        raise ValueError(problem)
