"""A fleet whose requests are counted, as its client tells them itself."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka.admin import AdminClient

from bench.harness.definition import BenchError
from seamark.context import Context
from seamark.fleet import Fleet
from seamark.kafka import Brokers
from seamark.kafka.model import OffsetAndTimestamp, PartitionReading, TopicPartition

INTERVAL_MS = 200
STATISTICS_SECONDS = 60.0


class CountingBrokers(Brokers):
    """The brokers of a fleet, with the requests that were sent, and the times that were asked for."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self.rounds: list[Mapping[TopicPartition, int]] = []
        self._told: list[dict[str, int]] = []
        self._admin: Any = None
        super().__init__(config, timeout_seconds=60.0, build_client=self._build)

    def read_offsets_at(self, times: Mapping[TopicPartition, int]) -> PartitionReading[OffsetAndTimestamp | None]:
        """The same, and keeps the times."""
        self.rounds.append(dict(times))
        return super().read_offsets_at(times)

    def count(self, read: Callable[[], Any]) -> dict[str, int]:
        """The requests that one read takes, by Kafka's name of them. The second client's are not among them."""
        before = self._read_counts()
        read()
        after = self._read_counts()
        return dict(Counter(after) - Counter(before))

    def _read_counts(self) -> dict[str, int]:
        """What the client has told, once it has told it twice more: the first one may be of before."""
        self._told.clear()
        deadline = time.monotonic() + STATISTICS_SECONDS
        while len(self._told) < 2:
            self._admin.poll(INTERVAL_MS / 1000)
            if time.monotonic() > deadline:
                raise BenchError("the client does not tell its requests")
        return self._told[-1]

    def _build(self, settings: dict[str, Any]) -> Any:
        more: dict[str, Any] = {"statistics.interval.ms": INTERVAL_MS, "stats_cb": self._note_statistics}
        self._admin = AdminClient(settings | more)
        return self._admin

    def _note_statistics(self, text: str) -> None:
        requests: Counter[str] = Counter()
        for broker in json.loads(text)["brokers"].values():
            requests.update(broker.get("req", {}))
        self._told.append(dict(requests))


@contextmanager
def open_counting(context: Context) -> Iterator[tuple[Fleet, CountingBrokers]]:
    """A fleet, and who counts for it."""
    brokers = CountingBrokers(context.kafka.client_config())
    with Fleet(context, build_brokers=lambda _: brokers) as fleet:
        yield fleet, brokers
