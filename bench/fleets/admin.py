"""A broker with many topics and groups, made by bare calls."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from bench.harness.definition import BenchError

T = TypeVar("T")

PARTITIONS = 6
RECORDS = 4
READ = 2
# A record every 20 minutes, the last one so old.
STEP_MS = 20 * 60 * 1000
TOPICS_AT_ONCE = 200
GROUPS_AT_ONCE = 100
ANSWER_SECONDS = 120.0
# A disk that syncs slowly takes some 10 ms for a log.
LOGS_SECONDS = 600.0
LOGS_AT_ONCE = 1000
LOOK_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Made:
    """What is there: topics, and groups with the topics that each has read half of."""

    topics: tuple[str, ...]
    groups: Mapping[str, tuple[str, ...]]
    first_ms: int

    @property
    def next_ms(self) -> int:
        """The time of the next record of every group, on every partition."""
        return self.first_ms + READ * STEP_MS

    def find_lag(self, group: str) -> int:
        """How many records a group is behind."""
        return len(self.groups[group]) * PARTITIONS * (RECORDS - READ)


def open_admin(address: str) -> AdminClient:
    """A bare client, which tells nobody that its broker has ended."""
    return AdminClient({"bootstrap.servers": address, "log_level": 0})


def make_admin(address: str, *, topics: int, groups: int) -> Made:
    """Make the topics, write to all of their partitions, and commit for the groups. Each topic has one group."""
    names = tuple(f"bench-{number:05d}" for number in range(topics))
    readers = {f"bench-group-{number:04d}": names[number::groups] for number in range(groups)}
    made = Made(names, readers, first_ms=int(time.time() * 1000) - RECORDS * STEP_MS)
    client = open_admin(address)
    for some in chunk(names, TOPICS_AT_ONCE):
        new = [NewTopic(name, PARTITIONS, 1) for name in some]
        _await(client.create_topics(new, request_timeout=ANSWER_SECONDS).values())
    _await_logs(address, names)
    _write(address, made)
    for chosen in chunk(tuple(readers), GROUPS_AT_ONCE):
        _commit_all(client, {group: readers[group] for group in chosen})
    return made


def chunk(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The items in portions."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _await_logs(address: str, names: Sequence[str]) -> None:
    """The brokers lead a partition some time before they have made its log."""
    deadline = time.monotonic() + LOGS_SECONDS
    left = [(name, number) for name in names for number in range(PARTITIONS)]
    while left:
        if time.monotonic() > deadline:
            raise BenchError(f"{len(left)} logs were not made in {LOGS_SECONDS:g} s")
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        wanted = {TopicPartition(name, number): latest for name, number in left[:LOGS_AT_ONCE]}
        # One that is not there takes the others with it, and the client remembers it too well.
        client = open_admin(address)
        futures = client.list_offsets(wanted, request_timeout=ANSWER_SECONDS)
        done = {(spot.topic, spot.partition) for spot, future in futures.items() if future.exception() is None}
        left = [spot for spot in left if spot not in done]
        if len(done) < len(wanted):
            time.sleep(LOOK_SECONDS)


def _write(address: str, made: Made) -> None:
    failed: list[Any] = []

    def note(error: Any, message: Any) -> None:
        del message
        if error is not None:
            failed.append(error)

    # Without a first look at all topics it asks for each of them anew, and tells of it.
    producer = Producer(
        {"bootstrap.servers": address, "log_level": 0, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000}
    )
    producer.list_topics(timeout=ANSWER_SECONDS)
    for name in made.topics:
        for partition in range(PARTITIONS):
            for number in range(RECORDS):
                moment = made.first_ms + number * STEP_MS
                producer.produce(name, b"v", partition=partition, timestamp=moment, on_delivery=note)
        producer.poll(0)
    if producer.flush(LOGS_SECONDS) or failed:
        raise BenchError(f"records could not be written: {failed[:1]}")


def _commit_all(client: AdminClient, groups: Mapping[str, Sequence[str]]) -> None:
    """The first commits make the topic for commits, which takes a while."""
    deadline = time.monotonic() + ANSWER_SECONDS
    left = dict(groups)
    while left:
        answers = {group: _commit(client, group, topics) for group, topics in left.items()}
        left = {group: left[group] for group, future in answers.items() if not _is_done(future)}
        if left and time.monotonic() > deadline:
            raise BenchError(f"{len(left)} groups could not be given their offsets")
        time.sleep(LOOK_SECONDS if left else 0)


def _is_done(future: Future[Any]) -> bool:
    if future.exception(ANSWER_SECONDS) is not None:
        return False
    return not any(spot.error for spot in future.result().topic_partitions)


def _commit(client: AdminClient, group: str, topics: Sequence[str]) -> Future[Any]:
    spots = [TopicPartition(name, number, READ) for name in topics for number in range(PARTITIONS)]
    wanted = [ConsumerGroupTopicPartitions(group, spots)]
    return client.alter_consumer_group_offsets(wanted, request_timeout=ANSWER_SECONDS)[group]


def _await(futures: Any) -> None:
    for future in futures:
        future.result(ANSWER_SECONDS)
