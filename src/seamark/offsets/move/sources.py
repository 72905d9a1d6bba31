"""Read offsets of deleted connectors, and reject files of recreated topics, where offsets mean other records."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from seamark.core.offsets import Offset, spell_identity
from seamark.errors import NotFoundError, RefusedError, UsageError
from seamark.offsets.semantics.sinks import find_spot
from seamark.offsets.stores.stores import reads_elsewhere

if TYPE_CHECKING:
    from seamark.connect.clusters import Clusters
    from seamark.connect.model import Connector
    from seamark.connectors.service import Connectors
    from seamark.core.readings import Reading
    from seamark.kafka.api import BrokerPort
    from seamark.kafka.model import TopicStatus
    from seamark.offsets.model import StoreReading
    from seamark.offsets.stores.stores import OffsetStores


def read_orphaned_offsets(
    owner: str, missing: NotFoundError, *, connectors: Connectors, clusters: Clusters, stores: OffsetStores
) -> tuple[Offset, ...]:
    """Read the offsets of a connector that no longer exists from the store of its workers.

    Raises:
        NotFoundError: The connector left no offsets; `missing` states that it does not exist.
        UsageError: The name has no Connect cluster, and there are offsets in several stores.
        RefusedError: Several records leave the offset ambiguous.
    """
    cluster, name = connectors.split_owner(owner)
    # Connect clusters may share a topic; it is read once.
    found: dict[str, StoreReading] = {}
    for where in (cluster,) if cluster is not None else clusters.names:
        reading = stores.find_workers(where).read([name])
        if reading.offsets:
            found.setdefault(reading.store, reading)
    if not found:
        raise missing
    if len(found) > 1:
        raise UsageError(f"{owner} has orphaned offsets in {', '.join(found)}", hint="pass CLUSTER/NAME")
    (reading,) = found.values()
    if unsure := [one for one in reading.offsets if not one.is_certain]:
        raise RefusedError(
            f"can't determine the offsets of {owner}; no changes were made",
            cause=f"there are several records for {', '.join(spell_identity(one.key.partition) for one in unsure)}",
            hint=f"list them with seamark offsets show {owner} --raw; then seamark offsets move OWNER --to '{{…}}'",
        )
    return tuple(one.as_offset() for one in reading.offsets)


def build_left_notes(owner: str) -> tuple[str, ...]:
    """Return the notes that a plan shows about such an owner."""
    return (
        f"{owner} does not exist: its offsets are orphaned, and its connector class is unknown",
        f"the orphaned offsets are kept: delete them with seamark offsets purge {owner}",
    )


class ExportedTopicIds:
    """The IDs that topics had when a file was written, compared with their current IDs.

    Every command that takes offsets from a file uses this check. All topics are read at once, on the first call.
    """

    def __init__(self, ids: Mapping[str, str] | None, *, kafka: Callable[[], BrokerPort] | None) -> None:
        """Create the check. `kafka` is None without brokers, `ids` is None if the file format has no topic IDs."""
        self._is_telling = ids is not None
        self._ids = ids or {}
        self._kafka = kafka
        self._reading: Reading[TopicStatus] | None = None
        self._mutex = threading.Lock()

    def refuse_other(self, owner: str, offsets: Sequence[Offset], connector: Connector | None = None) -> list[str]:
        """Raise if offsets are in other topics than the file's. Returns the notes that a plan shows.

        A topic that no longer exists is reported elsewhere. A consumer group has no connector.
        """
        spots = (find_spot(one.partition) for one in offsets if one.offset is not None)
        stood = sorted({spot[0] for spot in spots if spot is not None})
        if not stood or not self._is_telling:
            return []
        if connector is not None and reads_elsewhere(connector):
            return [_say_unsure(owner, stood, "it reads from another Kafka cluster than that of the context")]
        if self._kafka is None:
            return [_say_unsure(owner, stood, "the context has no kafka.bootstrap.servers")]
        known = [topic for topic in stood if topic in self._ids]
        unknown = [topic for topic in stood if topic not in self._ids]
        notes = [_say_unsure(owner, unknown, "the file has no topic ID for it")] if unknown else []
        return [*notes, *self._compare(owner, known, self._read(self._kafka))] if known else notes

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
            f"topic {', '.join(other)} was recreated or belongs to another Kafka cluster; no changes were made",
            cause=f"the topic ID of {first} is {now[first]}, the file has {self._ids[first]}: the same offsets "
            "refer to "
            "other records",
            hint="set new offsets with seamark offsets move OWNER --to earliest|TIME|OFFSET; import the other "
            "owners with "
            "seamark offsets import FILE OWNER…",
        )


def _say_unsure(owner: str, topics: Sequence[str], why: str) -> str:
    return f"{owner}: can't check whether {', '.join(topics)} was recreated since the export: {why}"
