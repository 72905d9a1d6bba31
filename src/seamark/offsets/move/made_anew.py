"""A file that speaks of a topic which was made anew since: the same numbers mean other records there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from seamark.errors import NotFoundError, RefusedError
from seamark.offsets.semantics.sink import find_spot
from seamark.offsets.stores.override_config import reads_elsewhere

if TYPE_CHECKING:
    from seamark.connect.connector import Connector
    from seamark.core.offset import Offset
    from seamark.core.reading import Reading
    from seamark.kafka.api import BrokerPort
    from seamark.kafka.topic import TopicStatus


class SavedTopics:
    """The ids that topics had when a file was written, held against those that they have now.

    Every verb that takes positions out of a file asks it. All topics are read at once, when the first is asked about.
    """

    def __init__(self, ids: Mapping[str, str] | None, *, kafka: Callable[[], BrokerPort] | None) -> None:
        """Without `kafka` there are no brokers to ask. Without `ids` the file is none that tells them."""
        self._is_telling = ids is not None
        self._ids = ids or {}
        self._kafka = kafka
        self._reading: Reading[TopicStatus] | None = None
        self._mutex = threading.Lock()

    def refuse_other(self, owner: str, offsets: Sequence[Offset], connector: Connector | None = None) -> list[str]:
        """Refuse positions in other topics than the file's. Gives what the reader of a plan must know.

        A topic that is gone is told elsewhere. A consumer group has no connector.
        """
        spots = (find_spot(one.partition) for one in offsets if one.offset is not None)
        stood = sorted({spot[0] for spot in spots if spot is not None})
        if not stood or not self._is_telling:
            return []
        if connector is not None and reads_elsewhere(connector):
            return [_say_unsure(owner, stood, "it reads from another Kafka cluster than the context's")]
        if self._kafka is None:
            return [_say_unsure(owner, stood, "the context does not tell where the brokers are")]
        told = [topic for topic in stood if topic in self._ids]
        untold = [topic for topic in stood if topic not in self._ids]
        notes = [_say_unsure(owner, untold, "the file does not tell its id")] if untold else []
        return [*notes, *self._compare(owner, told, self._read(self._kafka))] if told else notes

    def _compare(self, owner: str, topics: Sequence[str], reading: Reading[TopicStatus]) -> Iterator[str]:
        now = {found.name: found.topic_id for found in reading.items}
        if other := [topic for topic in topics if now.get(topic, self._ids[topic]) != self._ids[topic]]:
            raise self._build_refusal(other, now)
        for topic in topics:
            error = reading.failures.get(topic)
            if error is not None and not isinstance(error, NotFoundError):
                yield _say_unsure(owner, [topic], error.message)

    def _read(self, kafka: Callable[[], BrokerPort]) -> Reading[TopicStatus]:
        with self._mutex:
            if self._reading is None:
                self._reading = kafka().read_topics(sorted(self._ids))
            return self._reading

    def _build_refusal(self, other: Sequence[str], now: Mapping[str, str]) -> RefusedError:
        first = other[0]
        return RefusedError(
            f"{', '.join(other)}: not the topic that the file speaks of; nothing was changed",
            cause=f"the id of {first} is {now[first]}, and was {self._ids[first]}: a topic made anew, or of another "
            "cluster, has other records under the same numbers",
            hint="say where they shall begin: seamark offsets move OWNER --to earliest, a time, or an offset of the "
            "new one; seamark offsets import FILE OWNER… imports the others",
        )


def _say_unsure(owner: str, topics: Sequence[str], why: str) -> str:
    return f"{owner}: nobody can tell whether {', '.join(topics)} is still the topic that the file speaks of: {why}"
