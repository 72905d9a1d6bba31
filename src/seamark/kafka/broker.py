"""A Kafka cluster and its brokers, as they tell it themselves."""

from __future__ import annotations

from dataclasses import dataclass


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
