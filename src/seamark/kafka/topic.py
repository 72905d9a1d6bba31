"""A topic as the brokers tell it: partitions, replicas, the configs that matter, its size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from seamark.kafka.spot import Spot

# Kafka's words for a config that somebody set on the topic itself, and for one that nobody set anywhere.
_OWN = "DYNAMIC_TOPIC_CONFIG"
_DEFAULT = "DEFAULT_CONFIG"


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One partition and where its copies are. `leader` is None while nobody leads it."""

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
        """Whether it is Kafka's own default, which nobody has changed."""
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
    def spots(self) -> tuple[Spot, ...]:
        """Every partition, by topic and number."""
        return tuple((self.name, partition.id) for partition in self.partitions)

    @property
    def led_spots(self) -> tuple[Spot, ...]:
        """The partitions that somebody leads: the only ones whose bounds can be asked for."""
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
        """The partitions with fewer copies in sync than `min.insync.replicas`; those that nobody leads are among them.

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
        """The partitions that nobody leads right now."""
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
