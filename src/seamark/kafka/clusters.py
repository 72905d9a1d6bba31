"""A transaction that has begun on a partition and not ended."""

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
