"""What the consumer asks Kafka beside records: topics' ids, where logs begin and end, the offsets of its group."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from seamark.errors import RejectedError, UsageError
from seamark.kafka.failures import build_error
from seamark.kafka.spot import Spot
from seamark.kafka.topics import TopicAdmin

_LOGGER = logging.getLogger("seamark.consumer")
_ANSWER_SECONDS = 15.0
_PASSING = frozenset({"_ALL_BROKERS_DOWN", "_MAX_POLL_EXCEEDED", "_PARTITION_EOF", "_RESOLVE", "_TRANSPORT"})
_GONE = frozenset({"_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"})
_EDGES = {"earliest": 0, "beginning": 0, "smallest": 0, "latest": 1, "end": 1, "largest": 1}
# Keys that only a consumer has.
_NOT_ADMIN = (
    "group.",
    "partition.assignment",
    "auto.offset",
    "max.poll",
    "session.",
    "heartbeat.",
    "fetch.",
    "queued.",
)


class KafkaSide:
    """One consumer's. `client` is the one that reads."""

    def __init__(self, config: Mapping[str, Any], client: Any) -> None:
        self._config = {key: value for key, value in config.items() if not key.startswith(_NOT_ADMIN)}
        self._client = client
        self._reset = str(config.get("auto.offset.reset", "latest"))
        if self._reset not in {*_EDGES, "error"}:
            raise UsageError(f"auto.offset.reset can't be {self._reset!r}", hint=f"one of {', '.join(_EDGES)}, error")
        # What the group was told, and what it has taken.
        self._told: dict[Spot, int] = {}
        self._known: dict[Spot, int] = {}

    def read_topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        """The ids of topics: one that was made anew has another."""
        if not topics:
            return {}
        with TopicAdmin(self._config) as admin:
            reading = admin.read_topics(sorted(topics))
        for error in reading.failures.values():
            raise error
        return {found.name: found.topic_id for found in reading.items}

    def read_bounds(self, spot: Spot) -> tuple[int, int]:
        """Where a partition begins and ends."""
        low, high = self._client.get_watermark_offsets(spell_spot(spot), timeout=_ANSWER_SECONDS)
        return int(low), int(high)

    def find_start(self, spot: Spot) -> int:
        """Where a partition begins that the ledger does not know: at the group's offset, else at auto.offset.reset."""
        (found,) = self._client.committed([spell_spot(spot)], timeout=_ANSWER_SECONDS)
        if found.offset >= 0:
            return int(found.offset)
        if self._reset not in _EDGES:
            raise RejectedError(
                f"nobody says where {spot[0]}-{spot[1]} begins",
                cause="neither the ledger nor the group has an offset, and auto.offset.reset is error",
                hint="set auto.offset.reset to earliest or latest, or the group's offset",
            )
        return self.read_bounds(spot)[_EDGES[self._reset]]

    def mirror(self, offsets: Iterable[tuple[Spot, int]], *, is_last: bool) -> None:
        """Commit the ledger's offsets to the group, where they have moved. That is for watching: a failure is told.

        The last time also those whose answer has not come.
        """
        from confluent_kafka import KafkaException  # noqa: PLC0415

        before = self._known if is_last else self._told
        moved = {spot: offset for spot, offset in offsets if before.get(spot) != offset}
        if not moved:
            return
        spelled = [spell_spot(spot, offset) for spot, offset in moved.items()]
        try:
            done = self._client.commit(offsets=spelled, asynchronous=not is_last)
        except KafkaException as failure:
            _LOGGER.info("the group's offsets are not up to date: %s", failure.args[0].name())
            return
        self._told |= moved
        if is_last:
            self.note_commit(None, done)

    def note_commit(self, error: Any, partitions: Iterable[Any] | None) -> None:
        """The group has answered. What it did not take is told again."""
        for one in partitions or ():
            spot = (one.topic, one.partition)
            failure = one.error if error is None else error
            if failure is None:
                self._known[spot] = one.offset
            else:
                _LOGGER.info("the group's offset of %s-%s is not up to date: %s", *spot, failure.name())
                self._told.pop(spot, None)

    def judge(self, error: Any) -> None:
        """Raise an error of the client's that does not pass by itself."""
        if error.name() in _GONE:
            raise RejectedError(
                "records that the ledger has not seen are gone from the topic",
                cause=error.str(),
                hint="see what was lost: seek_to_beginning() goes on with the first record there is",
            )
        if error.fatal() or (not error.retriable() and error.name() not in _PASSING):
            raise build_error(error, action="consume", subject="", operation="READ", last_event=None)


def spell_spot(spot: Spot, offset: int = 0) -> Any:
    """A partition, and perhaps a place in it, as confluent-kafka names it."""
    from confluent_kafka import TopicPartition  # noqa: PLC0415

    return TopicPartition(*spot, offset)
