"""The offsets of a pipeline in a commit of its table, and how long Delta keeps the commit."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from seamark.core.strict_json import StoredFormat, check_format
from seamark.errors import FencedError, NotFoundError, RefusedError
from seamark.tables.delta.location import TableLocation
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
_REBUILD = "rebuild"


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
    # The ID of the rebuild in whose log the commit belongs; "" for the table itself.
    rebuild: str = ""

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
        rebuild = {_REBUILD: self.rebuild} if self.rebuild else {}
        known = {**FORMAT.field, _OWNER: self.owner, _RUN: self.run, _OFFSETS: topics}
        return json.dumps({**known, **times, **held, **rebuild})


@dataclass(frozen=True, slots=True)
class Position:
    """Where a landing stands: the commit that says it, None before the first; what it says, and when it was made."""

    commit: int | None
    vector: CommitOffsets
    made_at_ms: int = field(default=0, compare=False)

    def is_same(self, other: Position) -> bool:
        """Whether both are one commit: a log that was begun again has another one of the same number.

        What a commit said is "" if Delta has cleaned it away.
        """
        runs = {self.vector.run, other.vector.run} - {""}
        return self.commit == other.commit and len(runs) <= 1

    def list_missing(self, wanted: Iterable[LedgerEntry]) -> list[LedgerEntry]:
        """Return the entries of partitions that it doesn't have."""
        known = self.vector.by_key()
        return [entry for entry in wanted if entry.key not in known]

    @property
    def entries(self) -> dict[tuple[str, int], LedgerEntry]:
        """By the topic's id and the partition. The epoch is the commit: each one is a new one."""
        return {key: replace(entry, epoch=self.commit or 0) for key, entry in self.vector.by_key().items()}


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
        rebuild = str(found.get(_REBUILD, ""))
        return CommitOffsets(str(found[_OWNER]), str(found[_RUN]), entries, times, held_until=held, rebuild=rebuild)
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


def build_forgotten(place: TableLocation, version: int, error: Exception) -> NotFoundError:
    """Build the error for a version that the log no longer has."""
    return NotFoundError(
        f"the log of {place.url} no longer has version {version}",
        cause=" ".join(str(error).split())[:300],
        hint="Delta keeps its log for delta.logRetentionDuration, by default 30 days; rebuild the table again",
    )


def build_fenced(owner: str, found: Position) -> FencedError:
    """Build the error for offsets that another commit has changed."""
    return FencedError(
        f"the offsets of {owner} changed during the batch",
        cause=f"commit {found.commit} of the table changed them: another run, or a move of the offsets",
        hint="stop all other runs of the pipeline, then run it again; no rows are duplicated",
        context={"owner": owner},
    )
