"""Which transactions are open on a partition, by whom: the leader is asked, then the coordinators (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from seamark.kafka.open_transaction import OpenTransaction
from seamark.kafka.second import SecondClient, load
from seamark.kafka.spot import Spot


class TransactionsClient(SecondClient):
    """The calls of kafka-python for transactions; librdkafka has none of them."""

    def read_open(self, spots: Sequence[Spot]) -> tuple[OpenTransaction, ...]:
        """The open transactions of these partitions, the oldest of each first. Brokers 2.8 and later tell them."""
        if not spots:
            return ()
        return self._read(lambda client: _read_open(client, spots), "list the open transactions")


def _read_open(client: Any, spots: Sequence[Spot]) -> tuple[OpenTransaction, ...]:
    build = load("kafka.structs").TopicPartition
    answers = client.describe_producers([build(*spot) for spot in spots])
    found = [
        (spot, producer)
        for spot, answer in answers.items()
        for producer in answer.active_producers
        if producer.current_transaction_start_offset >= 0
    ]
    known = _read_known(client, sorted({producer.producer_id for _, producer in found}))
    built = [_build(spot, producer, known) for spot, producer in found]
    return tuple(sorted(built, key=lambda one: (one.topic, one.partition, one.start_offset)))


def _read_known(client: Any, producers: Sequence[int]) -> Mapping[int, tuple[str, Any]]:
    """What the coordinators know of these producers: their transactional id, and the transaction in hand."""
    if not producers:
        return {}
    listed = client.list_transactions(producer_id_filters=list(producers))
    names = [one.transactional_id for listings in listed.values() for one in listings]
    return {described.producer_id: (name, described) for name, described in _describe(client, names)}


def _describe(client: Any, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    gone = load("kafka.errors").TransactionalIdNotFoundError
    for name in names:
        try:
            yield from client.describe_transactions([name]).items()
        except gone:
            # It ended and was forgotten between the two calls.
            continue


def _build(spot: Any, producer: Any, known: Mapping[int, tuple[str, Any]]) -> OpenTransaction:
    name, described = known.get(producer.producer_id, ("", None))
    # A coordinator may know the producer, and a later transaction of it, which is not the one that is open here.
    is_its = described is not None and spot in described.topic_partitions
    return OpenTransaction(
        spot.topic,
        spot.partition,
        producer.current_transaction_start_offset,
        producer.producer_id,
        producer.producer_epoch,
        wrote_ms=producer.last_timestamp if producer.last_timestamp >= 0 else None,
        transactional_id=name,
        state=str(described.state.value) if is_its else "",
        began_ms=described.transaction_start_time_ms if is_its and described.transaction_start_time_ms >= 0 else None,
        timeout_ms=described.transaction_timeout_ms if described is not None else None,
    )
