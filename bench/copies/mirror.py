"""MirrorMaker 2 as a connector with exactly-once, from the first record of the target to the last.

Its start is left out: a run is measured from the moment in which the brokers have a first record.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any
from uuid import uuid4

import httpx2

from bench.copies.legs import CODEC, READ, WRITE
from bench.copies.stage import Copied, Kept, Shape, Stage
from bench.harness.definition import BenchError, Leg

CLASS = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
TASKS = 2
KEPT = Kept(timestamps=True, order=True)
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_START_SECONDS, _END_SECONDS, _STEP_SECONDS = 180.0, 900.0, 0.05
# Its default would be one transaction a poll, which is slower; and a longer one would wait for its end at the end.
_TRANSACTION_MS = "500"
_NOT_FOUND = 404
_OFF = ("sync.topic.acls", "sync.topic.configs", "heartbeats.replication", "emit.offset-syncs", "refresh.topics")


class Mirror:
    """One connector, for one run."""

    def __init__(self, stage: Stage, shape: Shape) -> None:
        self._stage = stage
        self._shape = shape
        self._name = f"bench-mirror-{uuid4().hex[:8]}"
        self._client = httpx2.Client(base_url=stage.worker, timeout=90.0, trust_env=False)

    def start(self) -> None:
        """Have it start, and wait for the first record."""
        source = self._stage.find_source(self._shape)
        self._stage.renew_target(self._shape, name=f"{self._name}.{source.topic}")
        config = build_config(self._stage.servers, source.topic, alias=self._name)
        self._stage.endings.append(self.end)
        self._client.put(f"/connectors/{self._name}/config", json=config).raise_for_status()
        self._wait(self._has_begun, seconds=_START_SECONDS, what="the first record")

    def finish(self) -> Copied:
        """Wait until the last record of each partition is committed."""
        self._wait(self._has_ended, seconds=_END_SECONDS, what="the last record")
        return Copied(self._shape, self._stage.target, kept=KEPT)

    def end(self) -> None:
        """Delete it, and wait until its tasks are gone."""
        self._client.delete(f"/connectors/{self._name}")
        self._wait(self._is_gone, seconds=_START_SECONDS, what="the end")
        self._client.close()

    def _has_begun(self) -> bool:
        return any(self._read_ends(is_committed=False).values())

    def _has_ended(self) -> bool:
        source = self._stage.find_source(self._shape)
        ends = self._read_ends(is_committed=True)
        # Markers of transactions have offsets too, so ends don't tell all: they tell when to ask.
        if any(ends[partition] < end for partition, end in source.ends.items()):
            return False
        # The worker writes its positions in the transactions of the records.
        answer = self._client.get(f"/connectors/{self._name}/offsets").raise_for_status().json()
        return read_positions(answer) == {partition: end - 1 for partition, end in source.ends.items()}

    def _is_gone(self) -> bool:
        return self._client.get(f"/connectors/{self._name}/status").status_code == _NOT_FOUND

    def _read_ends(self, *, is_committed: bool) -> dict[int, int]:
        target, partitions = self._stage.target, self._shape.targets
        return self._stage.topics.read_ends(target, partitions=partitions, is_committed=is_committed)

    def _wait(self, is_so: Callable[[], bool], *, seconds: float, what: str) -> None:
        deadline = time.monotonic() + seconds
        while not is_so():
            if time.monotonic() > deadline:
                said = self._client.get(f"/connectors/{self._name}/status").text[:2000]
                raise BenchError(f"waited {seconds:g} s for {what} of MirrorMaker; Connect says {said}")
            time.sleep(_STEP_SECONDS)


def read_positions(answer: Mapping[str, Any]) -> dict[int, int]:
    """The offset of the last record that was copied, by partition, from Connect's answer."""
    return {one["partition"]["partition"]: one["offset"]["offset"] for one in answer["offsets"] if one["offset"]}


def build_mirror_leg(shape: Shape) -> Leg[Stage, Copied]:
    """A connector that has just written its first record, then the way from there to the last."""
    waiting: list[Mirror] = []

    def prepare(stage: Stage) -> None:
        mirror = Mirror(stage, shape)
        mirror.start()
        waiting.append(mirror)

    return Leg(f"mirror {shape}", run=lambda _: waiting.pop().finish(), prepare=prepare)


def build_config(servers: str, topic: str, *, alias: str) -> dict[str, str]:
    """MirrorMaker with exactly-once, its clients set as those of the other legs."""
    consumer = {key.removeprefix("kafka."): value for key, value in READ.items()}
    producer = {key.removeprefix("kafka."): value for key, value in WRITE.items()}
    return {
        "connector.class": CLASS,
        "tasks.max": str(TASKS),
        "topics": topic,
        "source.cluster.alias": alias,
        "target.cluster.alias": f"{alias}-to",
        "source.cluster.bootstrap.servers": servers,
        "target.cluster.bootstrap.servers": servers,
        "key.converter": _BYTES,
        "value.converter": _BYTES,
        "replication.factor": "1",
        # Refused where the worker does not give it. MirrorMaker gives it only if it reads committed records.
        "exactly.once.support": "required",
        "transaction.boundary": "interval",
        "transaction.boundary.interval.ms": _TRANSACTION_MS,
        "source.consumer.isolation.level": "read_committed",
        **{f"source.consumer.{key}": value for key, value in consumer.items()},
        **{f"producer.override.{key}": value for key, value in producer.items()},
        "producer.override.compression.type": CODEC,
        **{f"{name}.enabled": "false" for name in _OFF},
    }
