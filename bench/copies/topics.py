"""The topics of a bench of copies: made, filled, asked for their ends, and deleted."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Self
from uuid import uuid4

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic

from bench.harness.definition import BenchError
from bench.harness.record import ROOT

_SECONDS, _STEP_SECONDS = 60, 0.1
_NOT_YET = {"NOT_LEADER_FOR_PARTITION", "UNKNOWN_TOPIC_OR_PART", "LEADER_NOT_AVAILABLE", "_NOENT"}
# Old timestamps stay, and nothing is cleaned while a leg reads.
_CONFIGS = {"retention.ms": "-1", "cleanup.policy": "delete", "message.timestamp.type": "CreateTime"}


class Topics:
    """Topics with names of their own, which go with it."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self._admin = AdminClient({"bootstrap.servers": servers})
        self._made: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.delete(list(self._made))

    def make(self, partitions: int, *, name: str = "", replication_factor: int = 1) -> str:
        """Create a topic, and return its name once all partitions have leaders."""
        called = name or f"bench-copy-{uuid4().hex[:8]}"
        # The brokers' default may ask for more replicas than the topic has.
        configs = {**_CONFIGS, "min.insync.replicas": str(max(1, replication_factor - 1))}
        new = NewTopic(called, partitions, replication_factor, config=configs)
        self._admin.create_topics([new])[called].result(_SECONDS)
        self._made.add(called)
        # A topic that is made may have no leader yet: who asks then is refused.
        deadline = time.monotonic() + _SECONDS
        while not self._is_led(called, partitions=partitions):
            if time.monotonic() > deadline:
                raise BenchError(f"waited {_SECONDS} s for the leaders of {called}")
            time.sleep(_STEP_SECONDS)
        return called

    def fill(self, partitions: int, *, records: int, size: int) -> str:
        """A new topic with so many records of so many bytes."""
        topic = self.make(partitions)
        order = [self.servers, topic, str(partitions), str(records), str(size)]
        done = subprocess.run(
            [sys.executable, "-m", "bench.copies.filling", *order],
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=False,
        )
        if done.returncode:
            raise BenchError(f"the source could not be filled: {done.stderr[-500:]}")
        return topic

    def keep(self, name: str) -> str:
        """Have a topic that somebody else makes deleted in the end; gives its name."""
        self._made.add(name)
        return name

    def delete(self, names: Iterable[str]) -> None:
        """Delete topics; one that is not there is deleted already."""
        wanted = [name for name in names if name in self._made]
        if not wanted:
            return
        for name, future in self._admin.delete_topics(wanted).items():
            future.exception(_SECONDS)
            self._made.discard(name)

    def read_ends(self, topic: str, *, partitions: int, is_committed: bool = False) -> dict[int, int]:
        """The end of each partition; with `is_committed` that of what readers of committed records get."""
        level = IsolationLevel.READ_COMMITTED if is_committed else IsolationLevel.READ_UNCOMMITTED
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = {TopicPartition(topic, partition): latest for partition in range(partitions)}
        found = self._admin.list_offsets(asked, isolation_level=level, request_timeout=_SECONDS)
        return {place.partition: future.result(_SECONDS).offset for place, future in found.items()}

    def _is_led(self, topic: str, *, partitions: int) -> bool:
        # By the list first: a client that was told of no leader for an offset says so for minutes.
        listed = self._admin.list_topics(topic, timeout=_SECONDS).topics[topic]
        leaders = [one.leader for one in listed.partitions.values()]
        if listed.error is not None or len(leaders) < partitions or min(leaders) < 0:
            return False
        try:
            self.read_ends(topic, partitions=partitions)
        except KafkaException as failure:
            if failure.args[0].name() not in _NOT_YET:
                raise
            return False
        return True
