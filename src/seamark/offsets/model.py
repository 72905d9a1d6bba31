"""Offsets as they are stored: with their bytes and their location."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from seamark.connect.model import Connector
from seamark.core.offsets import Offset, OffsetKey, OffsetMap, Unit
from seamark.kafka.model import HeldRecord
from seamark.report.words import parse_number


class WriteRoute(StrEnum):
    """How offsets are written.

    REST reaches only the key as Connect encodes it. A key in another encoding is reached only by a record with the same
    bytes, written to the same partition of the topic. Workers before 3.6 accept no offsets through REST: offsets of a
    source are written to its topic, offsets of a sink are committed for its GROUP.
    """

    REST = "rest"
    TOPIC = "topic"
    GROUP = "group"


@dataclass(frozen=True, slots=True)
class CurrentOffset:
    """The stored offset of one partition of an owner.

    `records` are all records for it, in every topic to which Connect would write; a consumer group has none.
    `ambiguity` says why seamark can't determine which of them the task will use, "" if it can. `is_misplaced`: one of
    the records is on a partition of its topic to which no worker would write it. `is_certain` is false if several of
    the records differ.
    """

    partition: OffsetMap
    offset: OffsetMap | None = None
    records: tuple[HeldRecord, ...] = ()
    ambiguity: str = ""
    is_misplaced: bool = False
    is_certain: bool = True


@dataclass(frozen=True, slots=True)
class CompletedOffsets:
    """The stored offsets, with a record where the tasks look it up. `notes` describe how new keys are encoded."""

    held: tuple[CurrentOffset, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetWrite:
    """One write of a partition's offset, and the timestamp of its record by the clock of its producer."""

    offset: OffsetMap | None
    at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class TopicHolding:
    """What one offsets topic contains for one connector: the newest record of each key on each partition.

    `find_home` returns, for a key that is not in the topic yet, the partition that a Java producer would choose.
    """

    topic: str
    records: tuple[HeldRecord, ...]
    find_home: Callable[[bytes], int] = field(compare=False)


class StoredRecord(NamedTuple):
    """One record of a store, and how a worker interprets it.

    `partition`, `record_offset` and `timestamp_ms` are those of the record in its topic; a file has none. A consumer
    group has no bytes either. `offset` is the decoded value, None if there is none. docs/reference/offsets.md defines
    the verdicts. This is a tuple because a hundred thousand of them are in memory at once.
    """

    store: str
    key: bytes | None = None
    value: bytes | None = None
    partition: int | None = None
    record_offset: int | None = None
    timestamp_ms: int | None = None
    offset: OffsetMap | None = None
    key_verdict: str = "good"
    value_verdict: str = "good"
    oddities: tuple[str, ...] = ()

    @property
    def is_tombstone(self) -> bool:
        """Return whether the record states that there is no longer an offset."""
        return self.value_verdict == "tombstone"

    @property
    def place(self) -> str:
        """Return where the record is stored: `connect-offsets-3@117`, or the store's name."""
        if self.partition is None:
            return self.store
        return f"{self.store.removeprefix('topic ')}-{self.partition}@{self.record_offset}"


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """What is stored for one partition, by any number of records.

    `evidence` is the record that `offset` comes from, `others` are the rest: other encodings of the key, other
    partitions of the topic. If it is open which of them a task finds, `is_certain` is false and `offset` is the one
    written last.
    """

    key: OffsetKey
    offset: OffsetMap | None
    evidence: StoredRecord
    others: tuple[StoredRecord, ...] = ()
    is_certain: bool = True

    def as_offset(self) -> Offset:
        """Return only the partition and its offset."""
        return Offset(self.key.partition, self.offset)


@dataclass(frozen=True, slots=True)
class StoreReading:
    """What a store contains, for all owners or for the requested ones.

    `forgotten` are partitions whose offset was deleted. `scanned` is the number of records read. `partitions` is the
    number of partitions of the topic, if it is needed to compute the correct partition of a key.
    """

    store: str
    offsets: tuple[StoredOffset, ...] = ()
    forgotten: tuple[StoredOffset, ...] = ()
    findings: tuple[OffsetFinding, ...] = ()
    scanned: int = 0
    partitions: int | None = None


class OffsetAnomaly(StrEnum):
    """A kind of finding. Records with a finding are kept as they are: none is dropped, and none is guessed."""

    DUPLICATE_ENCODING = "duplicate-encoding"
    """One source partition under several key encodings. A task finds only its own encoding."""
    MISPLACED = "misplaced"
    """A key on a partition of the topic other than the one that Java's partitioner chooses."""
    HIDDEN_BY_TOMBSTONE = "hidden-by-tombstone"
    """A tombstone hides an offset: with another encoding from REST only, on another partition from tasks as well."""
    UNREADABLE_KEY = "unreadable-key"
    """Bytes that Connect never writes, such as a key with spaces: no task finds them."""
    BAD_KEY = "bad-key"
    """A key that a worker ignores."""
    BAD_VALUE = "bad-value"
    """A value that a worker can't read, or an empty value: the task gets no offset."""
    MALFORMED = "malformed"
    """A worker reads it in an unexpected way: trailing text, a duplicate field, a number beyond 64 bits."""
    OPEN_TRANSACTION = "open-transaction"
    """A transaction that was never completed hides the records after it. Connect itself waits for its end."""
    NO_FALLBACK = "no-fallback"
    """It is stored only in the workers' topic although the connector has its own: Connect does not fall back."""
    COPY_DIFFERS = "copy-differs"
    """The workers' topic contains another value than the connector's own topic, which takes precedence."""
    REST_NULL = "rest-null"
    """REST returned null for a partition that has a stored offset."""
    REST_DIFFERS = "rest-differs"
    """REST returned another offset than the stored one."""
    REST_ABSENT = "rest-absent"
    """REST did not list a partition that has a stored offset."""
    REST_ALONE = "rest-alone"
    """REST listed a partition that has no stored offset."""


@dataclass(frozen=True, slots=True)
class OffsetFinding:
    """One finding: its owner ("" if unknown), the partition, and the records that show it."""

    anomaly: OffsetAnomaly
    connector: str
    message: str
    partition: OffsetMap | None = None
    evidence: tuple[StoredRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class OwnerOffsets:
    """The offsets of one owner.

    `route` states how they were read: through REST, or from the stores in `stores`. In the latter case `stored` has the
    bytes and `findings` the anomalies. `rest` is the answer of REST in addition, None if REST was not asked or did not
    answer. `connector` is None for a consumer group, and for a connector that no longer exists and has orphaned
    offsets.
    """

    owner: str
    connector: Connector | None
    offsets: tuple[Offset, ...]
    route: str = "REST"
    notes: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()
    stored: tuple[StoredOffset, ...] = ()
    forgotten: tuple[StoredOffset, ...] = ()
    findings: tuple[OffsetFinding, ...] = ()
    rest: tuple[Offset, ...] | None = None


# A running source keeps reading between the plan and the stop. 10 % more than was confirmed seldom changes the
# decision, and for a short distance 1,000 records, or 1 MiB, are only a few seconds of an ordinary connector.
_SHARE = 0.1
_LEAST: Mapping[Unit, int] = {Unit.ROWS: 1000, Unit.RECORDS: 1000, Unit.BYTES: 1024 * 1024}
_WHOLE = 100.0


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How much more than planned may be reprocessed or skipped: a share of the plan, but at least a fixed number.

    Without `least`, the number depends on the unit.
    """

    share: float = _SHARE
    least: int | None = None

    def allow(self, planned: int, unit: Unit) -> int:
        """Return the largest amount that is still within the tolerance."""
        least = _LEAST[unit] if self.least is None else self.least
        return planned + max(int(planned * self.share), least)


DEFAULT_TOLERANCE = Tolerance()


@dataclass(frozen=True, slots=True)
class SafetyOptions:
    """How carefully offsets are changed: whether an unresponsive worker is accepted, and the tolerance for the plan.

    `wait_seconds` is how long to wait for the first new offset, by default as long as the workers need to store one.
    """

    accepts_zombies: bool = False
    tolerance: Tolerance = DEFAULT_TOLERANCE
    wait_seconds: float | None = None


DEFAULT_SAFETY = SafetyOptions()


def parse_tolerance(text: str) -> Tolerance:
    """Parse `10%` or `5,000`. Raises ValueError for anything else."""
    words = text.strip()
    if words.endswith("%"):
        share = float(words[:-1]) / _WHOLE
        if not 0 <= share <= _WHOLE:
            raise ValueError(f"invalid share {text!r}")
        return Tolerance(share, 0)
    number = parse_number(words)
    if number < 0:
        raise ValueError(f"{text!r} is negative")
    return Tolerance(0.0, number)
