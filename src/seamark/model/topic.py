"""A topic as the brokers tell it: partitions, replicas, the configs that matter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


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


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """A config of a topic and where the broker took it from, in Kafka's own word."""

    value: str
    source: str


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """One topic.

    `operations` are Kafka's words for what this principal may do. `configs` is empty and
    `configs_error` says why where the configs could not be read.
    """

    name: str
    topic_id: str
    partitions: tuple[PartitionStatus, ...]
    operations: frozenset[str] = frozenset()
    configs: Mapping[str, TopicConfig] = field(default_factory=dict)
    configs_error: str = ""

    @property
    def replication_factor(self) -> int:
        """The smallest number of copies that any partition has."""
        return min((len(partition.replicas) for partition in self.partitions), default=0)

    @property
    def under_replicated(self) -> tuple[int, ...]:
        """The partitions that miss a copy right now."""
        return tuple(partition.id for partition in self.partitions if partition.is_under_replicated)

    def config(self, key: str) -> str:
        """The value of a config, or nothing where it could not be read."""
        found = self.configs.get(key)
        return found.value if found else ""
