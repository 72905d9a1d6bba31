"""Offsets as a store holds them: with the bytes, and where they lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from seamark.connect.model import Connector
from seamark.core.offsets import Offset, OffsetKey, OffsetMap
from seamark.kafka.model import HeldRecord


class WriteRoute(StrEnum):
    """How offsets are written.

    REST reaches the key that Connect spells itself. A key in another spelling is only reached by a record with its very
    bytes, written to the partition of the topic where it lies. Workers before 3.6 take no offsets through REST: those
    of a source go to its topic, those of a sink are committed for its GROUP.
    """

    REST = "rest"
    TOPIC = "topic"
    GROUP = "group"


@dataclass(frozen=True, slots=True)
class CurrentOffset:
    """The stored offset of one partition of an owner.

    `records` are all records for it, in every topic that Connect would write; a consumer group has none. `ambiguity`
    says why seamark can't determine which of them the task will use, "" where it can. `is_stray`: one of them is on a
    partition of its topic where no worker would write it. `is_certain` is false where several of them differ.
    """

    partition: OffsetMap
    offset: OffsetMap | None = None
    records: tuple[HeldRecord, ...] = ()
    ambiguity: str = ""
    is_stray: bool = False
    is_certain: bool = True


@dataclass(frozen=True, slots=True)
class CompletedOffsets:
    """What is held, with a record where the tasks look for it. `notes` say how new keys are spelled."""

    held: tuple[CurrentOffset, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetWrite:
    """One write of a partition's offset, and the time of its record by the clock of whoever wrote it."""

    offset: OffsetMap | None
    at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class TopicHolding:
    """What one offsets topic holds of one connector: the newest record of each key on each partition.

    `find_home` says for a key that is not there yet on which partition a Java producer would put it.
    """

    topic: str
    records: tuple[HeldRecord, ...]
    find_home: Callable[[bytes], int] = field(compare=False)


class StoredRecord(NamedTuple):
    """One record of a store, and how a worker interprets it.

    `partition`, `record_offset` and `timestamp_ms` are those of the record in its topic; a file has none. A consumer
    group has no bytes either. `offset` is what the value says, None where it says nothing. The verdicts are the words
    of docs/offsets.md. A tuple, because a hundred thousand of them are held at once.
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
        """Whether the record says that there is no offset any more."""
        return self.value_verdict == "tombstone"

    @property
    def place(self) -> str:
        """Where it lies: `connect-offsets-3@117`, or the store's name."""
        if self.partition is None:
            return self.store
        return f"{self.store.removeprefix('topic ')}-{self.partition}@{self.record_offset}"


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """What is held for one partition, however many records speak of it.

    `evidence` is the record that `offset` comes from, `others` are the rest: other spellings of the key, other
    partitions of the topic. Where they leave open which one a task finds, `is_certain` is false, and the one that was
    written last is shown.
    """

    key: OffsetKey
    offset: OffsetMap | None
    evidence: StoredRecord
    others: tuple[StoredRecord, ...] = ()
    is_certain: bool = True

    def as_offset(self) -> Offset:
        """The partition and the position alone."""
        return Offset(self.key.partition, self.offset)


@dataclass(frozen=True, slots=True)
class StoreReading:
    """What a store holds, of everybody or of those who were asked for.

    `forgotten` are partitions whose offset was taken away. `scanned` is how many records were looked at. `partitions`
    are those of the topic, where a key's home among them is known.
    """

    store: str
    offsets: tuple[StoredOffset, ...] = ()
    forgotten: tuple[StoredOffset, ...] = ()
    findings: tuple[OffsetFinding, ...] = ()
    scanned: int = 0
    partitions: int | None = None


class OffsetAnomaly(StrEnum):
    """What was found. Each stays as it lies: nothing is dropped, and nothing is guessed."""

    VARIANTS = "variants"
    """One partition under several spellings. A task knows one of them, its own."""
    STRAY = "stray"
    """A key on a partition of the topic where Java's partitioner does not put it."""
    MASKED = "masked"
    """A tombstone hides an offset: under another spelling from REST, on another partition from tasks too."""
    NEVER_READ = "never-read"
    """Bytes that Connect never writes, such as a key with spaces: no task finds them."""
    BAD_KEY = "bad-key"
    """A key that a worker passes over."""
    BAD_VALUE = "bad-value"
    """A value that a worker can't read, or that says nothing: the task gets nothing."""
    ODD_BYTES = "odd-bytes"
    """A worker reads it, but not as one would think: text behind the end, a field twice, a number beyond 64 bits."""
    OPEN_TRANSACTION = "open-transaction"
    """A transaction that nobody ended hides what follows. Connect itself waits for its end."""
    NO_FALLBACK = "no-fallback"
    """It stands in the workers' topic only, and the connector has its own: Connect does not fall back."""
    COPY_DIFFERS = "copy-differs"
    """The copy in the workers' topic says something else than the connector's own topic, which counts."""
    REST_NULL = "rest-null"
    """REST answered null for a partition that holds an offset."""
    REST_DIFFERS = "rest-differs"
    """REST answered another offset than the store holds."""
    REST_ABSENT = "rest-absent"
    """REST did not name a partition that holds an offset."""
    REST_ALONE = "rest-alone"
    """REST named a partition for which the store holds nothing."""


@dataclass(frozen=True, slots=True)
class OffsetFinding:
    """One odd thing: whose it is ("" where that can't be told), of which partition, and the records that show it."""

    anomaly: OffsetAnomaly
    connector: str
    message: str
    partition: OffsetMap | None = None
    evidence: tuple[StoredRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class OwnerOffsets:
    """The offsets of one owner.

    `route` says how it was read: through REST, or from the stores named in `stores`. Then `stored` has the bytes and
    `findings` what is odd. `rest` is what REST said beside, None where it was not asked or did not answer. `connector`
    is None for a consumer group, and for a connector that is gone and left offsets behind.
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
