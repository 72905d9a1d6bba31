"""A topic as the brokers tell it: partitions, replicas, the configs that matter, its size."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, NamedTuple, TypeVar

from seamark.errors import PartialError, SeamarkError, UsageError


class RawRecord(NamedTuple):
    """One record. A tuple, because a hundred thousand of them are held at once."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class ScanResult:
    """What a scan of a whole topic found: of each key and partition the newest record.

    `partitions` is how many the topic has, `scanned` how many records were read. `held_back` has the partitions in
    which an open transaction hides what follows: where reading ended, and where the log does.
    """

    topic: str
    partitions: int
    scanned: int
    records: tuple[RawRecord, ...]
    held_back: Mapping[int, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HeldRecord:
    """One record of an offsets topic, to the byte. No value is a tombstone, or no record at all."""

    topic: str
    partition: int
    key: bytes
    value: bytes | None = None

    @property
    def place(self) -> str:
        """The topic, its partition and the key: what a later record of the same place replaces."""
        return f"{self.topic}-{self.partition} {b64encode(self.key).decode()}"

    def to_dict(self) -> dict[str, Any]:
        """As JSON, the bytes in base64."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "key": b64encode(self.key).decode(),
            "value": None if self.value is None else b64encode(self.value).decode(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> HeldRecord:
        """Read what `to_dict` gave."""
        value = data["value"]
        return cls(
            str(data["topic"]),
            int(data["partition"]),
            b64decode(data["key"], validate=True),
            None if value is None else b64decode(value, validate=True),
        )


T = TypeVar("T")

TopicPartition = tuple[str, int]
"""A partition: its topic and its number."""


class OffsetSpec(StrEnum):
    """An offset by name, as in the brokers' ListOffsets request.

    `STABLE` is where readers of committed records come to an end; that is `LATEST`, or where an open transaction began.
    `NEWEST` is that of the record with the latest timestamp.
    """

    EARLIEST = "earliest"
    LATEST = "latest"
    STABLE = "stable"
    NEWEST = "newest"


@dataclass(frozen=True, slots=True)
class LogOffsets:
    """The first offset of a partition, and the one that its next record will get."""

    earliest: int
    latest: int

    @property
    def records(self) -> int:
        """How many offsets lie between: as many records at most, fewer where the log is compacted."""
        return max(0, self.latest - self.earliest)


@dataclass(frozen=True, slots=True)
class OffsetAndTimestamp:
    """An offset and, where the brokers tell them, the timestamp of the record there and the epoch of its leader."""

    offset: int
    timestamp_ms: int | None = None
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class PartitionReading(Generic[T]):
    """What was read of many partitions, and by partition why the rest could not be: never a silently short answer."""

    found: Mapping[TopicPartition, T] = field(default_factory=dict)
    failures: Mapping[TopicPartition, SeamarkError] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether every partition was read."""
        return not self.failures

    def require_complete(self, *, what: str) -> Mapping[TopicPartition, T]:
        """What was found, or a PartialError that names every partition that could not be read."""
        if self.failures:
            named = {f"{topic}-{partition}": error for (topic, partition), error in self.failures.items()}
            raise PartialError(
                f"could not read {what} of {', '.join(named)}",
                failures=named,
                hint="find the problem: seamark topics health",
            )
        return self.found


Headers = tuple[tuple[str, bytes | None], ...]
"""Headers in their order. A name may stand twice, and a value may be missing."""

_PLACE = re.compile(
    r"(?P<topic>[A-Za-z0-9._-]{1,249})-(?P<partition>\d{1,9})@(?P<offset>\d{1,18}|\d{1,3}(?:,\d{3}){1,5})"
)


@dataclass(frozen=True, slots=True, order=True)
class RecordLocation:
    """The topic, partition and offset of a record. It is written `topic-3@123`."""

    topic: str
    partition: int
    offset: int

    @property
    def spot(self) -> TopicPartition:
        """Its partition."""
        return self.topic, self.partition

    def __str__(self) -> str:
        """`topic-3@123`."""
        return f"{self.topic}-{self.partition}@{self.offset}"


@dataclass(frozen=True, slots=True)
class WholeRecord:
    """A record with all that is in it."""

    place: RecordLocation
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class RecordSize:
    """What may be said of a record without saying what is in it. None where there is no key or no value."""

    timestamp_ms: int
    key: int | None
    value: int | None
    headers: int


def measure(record: WholeRecord) -> RecordSize:
    """The sizes of a record."""
    return RecordSize(
        record.timestamp_ms,
        None if record.key is None else len(record.key),
        None if record.value is None else len(record.value),
        len(record.headers),
    )


def parse_place(text: str) -> RecordLocation:
    """Read `topic-3@123`. The offset may have commas between its digits."""
    found = _PLACE.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"invalid record location {text!r}", hint="write TOPIC-PARTITION@OFFSET, as in orders-3@123")
    return RecordLocation(found["topic"], int(found["partition"]), int(found["offset"].replace(",", "")))


# Kafka's names for a config that is set on the topic itself, and for one that is set nowhere.
_OWN = "DYNAMIC_TOPIC_CONFIG"
_DEFAULT = "DEFAULT_CONFIG"


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One partition and where its replicas are. `leader` is None while it has no leader."""

    id: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]

    @property
    def is_under_replicated(self) -> bool:
        """Whether a copy is missing or behind right now."""
        return len(self.isr) < len(self.replicas)

    @property
    def missing(self) -> tuple[int, ...]:
        """The brokers whose copies are not in sync."""
        return tuple(broker for broker in self.replicas if broker not in self.isr)


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """A config of a topic and where the broker took it from, in Kafka's own word."""

    value: str
    source: str
    # The brokers do not tell such a value; `value` is then empty.
    is_sensitive: bool = False

    @property
    def is_own(self) -> bool:
        """Whether it is set on the topic itself, and not taken from a broker's config or Kafka's default."""
        return self.source == _OWN

    @property
    def is_default(self) -> bool:
        """Whether it is Kafka's own default, which is not overridden anywhere."""
        return self.source == _DEFAULT


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """One topic.

    `operations` are Kafka's words for what this principal may do. `configs` are those that matter to Connect and those
    that differ from Kafka's default; it is empty and `configs_error` says why where they could not be read.
    """

    name: str
    topic_id: str
    partitions: tuple[PartitionStatus, ...]
    operations: frozenset[str] = frozenset()
    configs: Mapping[str, TopicConfig] = field(default_factory=dict)
    configs_error: str = ""
    is_internal: bool = False

    @property
    def spots(self) -> tuple[TopicPartition, ...]:
        """Every partition, by topic and number."""
        return tuple((self.name, partition.id) for partition in self.partitions)

    @property
    def led_spots(self) -> tuple[TopicPartition, ...]:
        """The partitions that have a leader: the only ones whose bounds can be read."""
        return tuple((self.name, partition.id) for partition in self.partitions if partition.leader is not None)

    @property
    def own_configs(self) -> dict[str, str]:
        """The configs that are set on the topic itself."""
        return {key: found.value for key, found in self.configs.items() if found.is_own}

    @property
    def changed_configs(self) -> dict[str, TopicConfig]:
        """The configs that differ from Kafka's default, set on the topic itself or for all topics at the brokers."""
        return {key: found for key, found in self.configs.items() if not found.is_default}

    @property
    def min_isr(self) -> int | None:
        """How many copies must be in sync for a write with acks=all; None where the configs could not be read."""
        found = self.config("min.insync.replicas")
        return int(found) if found.isdecimal() else None

    @property
    def replication_factor(self) -> int:
        """The smallest number of copies that any partition has."""
        return min((len(partition.replicas) for partition in self.partitions), default=0)

    @property
    def under_replicated(self) -> tuple[int, ...]:
        """The partitions that miss a copy right now."""
        return tuple(partition.id for partition in self.partitions if partition.is_under_replicated)

    @property
    def under_min_isr(self) -> tuple[int, ...]:
        """The partitions with fewer replicas in sync than `min.insync.replicas`, including those without a leader.

        As Kafka's own program counts; see `refusing`.
        """
        least = self.min_isr or 0
        return tuple(found.id for found in self.partitions if found.leader is None or len(found.isr) < least)

    @property
    def refusing(self) -> tuple[int, ...]:
        """The partitions that take no write with acks=all right now.

        Those of `under_min_isr` but for the ones whose copies are all in sync: brokers from 3.7 on ask for no more
        copies than there are (apache/kafka pull 14594).
        """
        short = frozenset(self.under_min_isr)
        return tuple(
            found.id
            for found in self.partitions
            if found.id in short and (found.leader is None or found.is_under_replicated)
        )

    @property
    def leaderless(self) -> tuple[int, ...]:
        """The partitions that have no leader now."""
        return tuple(partition.id for partition in self.partitions if partition.leader is None)

    def config(self, key: str) -> str:
        """The value of a config, or nothing where it could not be read."""
        found = self.configs.get(key)
        return found.value if found else ""


@dataclass(frozen=True, slots=True)
class TopicSize:
    """How many bytes each copy of each partition takes on its broker: `replicas` is by partition and broker id."""

    name: str
    replicas: Mapping[tuple[int, int], int]

    @property
    def bytes(self) -> int:
        """All copies together."""
        return sum(self.replicas.values())

    @property
    def by_broker(self) -> dict[int, int]:
        """The bytes on each broker."""
        sizes: dict[int, int] = {}
        for (_, broker), size in self.replicas.items():
            sizes[broker] = sizes.get(broker, 0) + size
        return sizes

    @property
    def by_partition(self) -> dict[int, int]:
        """The bytes of each partition's largest copy: followers may be behind, or cut their log at other places."""
        sizes: dict[int, int] = {}
        for (partition, _), size in self.replicas.items():
            sizes[partition] = max(sizes.get(partition, 0), size)
        return sizes


_WORDS = frozenset({"true", "false"})


def normalize_value(value: str) -> str:
    """Return a value as the brokers write it: they parse each as a number, a word or a list, and format it.

    "compact, delete" becomes "compact,delete", "TRUE" becomes "true", "0.50" becomes "0.5".
    """
    return ",".join(_normalize_part(part.strip()) for part in value.split(","))


def _normalize_part(part: str) -> str:
    if part.lower() in _WORDS:
        return part.lower()
    try:
        return str(int(part)) if part.isascii() and "_" not in part else part
    except ValueError:
        pass
    try:
        # Java writes 1.0E10 where Python writes 10000000000.0; no topic config is so large a fraction.
        return str(float(part)) if "." in part and part.replace(".", "", 1).isdecimal() else part
    except ValueError:
        return part


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker and the address it wants to be reached at."""

    id: int
    host: str
    port: int
    rack: str = ""

    @property
    def address(self) -> str:
        """HOST:PORT, as clients take it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class KafkaCluster:
    """The cluster behind a bootstrap address.

    `operations` are Kafka's words for what this principal may do to the cluster as a whole.
    The brokers' own version is not here: the Kafka protocol does not tell it.
    """

    cluster_id: str
    brokers: tuple[Broker, ...]
    controller: int | None = None
    operations: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """Who began it, where, and when.

    `start_offset` is that of its first record: readers of committed records come no further. `wrote_ms` is the time of
    its newest record there. The rest is what its coordinator knows, which is nothing of a transaction that hangs:
    `transactional_id` is "" and `began_ms` and `timeout_ms` are None where it knows none of that producer.
    """

    topic: str
    partition: int
    start_offset: int
    producer_id: int
    producer_epoch: int
    wrote_ms: int | None = None
    transactional_id: str = ""
    state: str = ""
    began_ms: int | None = None
    timeout_ms: int | None = None

    @property
    def is_known(self) -> bool:
        """Whether its coordinator tracks the transaction, and so ends it at its timeout."""
        return self.state in ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")

    @property
    def since_ms(self) -> int | None:
        """When it began, or when its newest record was written if the beginning is unknown."""
        return self.began_ms or self.wrote_ms
