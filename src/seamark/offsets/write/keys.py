"""Keys for partitions that no record speaks of yet, where they are not written by Connect: spelled as it would."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from seamark.connect.connector import Connector
from seamark.core.offset import OffsetMap, spell_identity
from seamark.errors import NotFoundError, RefusedError
from seamark.kafka.records_held import HeldRecord
from seamark.offsets.codec.codec import decode_key, encode_key, encode_rest_key
from seamark.offsets.held_offset import CompletedOffsets, HeldOffset, TopicHolding
from seamark.offsets.stores.grouping import is_task_key
from seamark.offsets.stores.override_config import build_override_config
from seamark.offsets.stores.stores import find_own_topic

if TYPE_CHECKING:
    from seamark.context import ConnectSettings, Context
    from seamark.offsets.stores.stores import OffsetStores

_PRODUCER = "producer.override."


class NewKeys:
    """Gives a partition that no task would find a record in every topic that Connect would write.

    What is there stays as it is, to the byte.
    """

    def __init__(
        self, connector: Connector, *, context: Context, settings: ConnectSettings, stores: OffsetStores
    ) -> None:
        self._connector = connector
        self._context = context
        self._settings = settings
        self._stores = stores

    def complete(self, held: Sequence[HeldOffset]) -> CompletedOffsets:
        """The same offsets. The topic that the tasks read comes first in the records of each."""
        topics = self._find_topics()
        lacking = [one for one in held if topics[0] not in {record.topic for record in _find_read(one)}]
        if not lacking:
            return CompletedOffsets(tuple(held))
        self._refuse_unknown()
        holdings = {topic: self._read(topic) for topic in topics}
        notes: dict[str, None] = {}
        done = []
        for one in held:
            if one not in lacking:
                done.append(one)
                continue
            records, note = self._complete_one(one, holdings)
            done.append(replace(one, records=records))
            if note:
                notes.setdefault(note)
        return CompletedOffsets(tuple(done), tuple(notes))

    def _find_topics(self) -> tuple[str, ...]:
        if self._settings.offsets_topic is None:
            raise self._context.missing(f"connect.{self._connector.cluster}.offsets_topic")
        own = find_own_topic(self._connector, self._settings)
        return tuple(dict.fromkeys([own or self._settings.offsets_topic, self._settings.offsets_topic]))

    def _refuse_unknown(self) -> None:
        """Where a new key would go, nobody must have to guess."""
        owner = self._connector.owner
        if not self._stores.knows_home(self._connector):
            raise RefusedError(
                f"nobody can tell on which partition of its topic a new key of {owner} belongs; nothing was changed",
                cause="the config names a partitioner of its own",
                hint="let it run until it has written a position, then move that",
            )
        own = find_own_topic(self._connector, self._settings)
        if own and build_override_config(self._connector.config, self._context, prefix=_PRODUCER, name=owner):
            raise RefusedError(
                f"{owner} has its offsets in another Kafka cluster, and no record there yet; nothing was changed",
                hint="let it run until it has written a position, then move that",
            )

    def _read(self, topic: str) -> TopicHolding:
        owner = self._connector.owner
        try:
            return self._stores.read_holding(self._connector, topic)
        except NotFoundError as missing:
            raise RefusedError(
                f"topic {topic}, where {owner} keeps its offsets, is not there yet; nothing was changed",
                cause=missing.message,
                hint="its workers make it when it first runs",
            ) from missing

    def _complete_one(
        self, held: HeldOffset, holdings: Mapping[str, TopicHolding]
    ) -> tuple[tuple[HeldRecord, ...], str]:
        there = _find_read(held)
        note = ""
        if there:
            key = there[0].key
        else:
            key, note = self._spell(held.partition, holdings)
        missing = [topic for topic in holdings if topic not in {record.topic for record in there}]
        added = [HeldRecord(topic, holdings[topic].find_home(key), key) for topic in missing]
        order = list(holdings)
        return tuple(sorted((*there, *added), key=lambda record: order.index(record.topic))), note

    def _spell(self, partition: OffsetMap, holdings: Mapping[str, TopicHolding]) -> tuple[bytes, str]:
        """The key, and what to say of it. Other keys of the connector show how its tasks order their fields."""
        owner, words = self._connector.owner, spell_identity(partition)
        orders = set(_find_orders(partition, holdings))
        if len(orders) > 1:
            raise RefusedError(
                f"nobody can tell how the tasks of {owner} spell the key of {words}; nothing was changed",
                cause=f"its other keys have their fields in {len(orders)} orders",
                hint=f"seamark offsets show {owner} shows all of them",
            )
        name = self._connector.name
        rest = encode_rest_key(name, partition)
        for order in orders:
            key = encode_key(name, {field: partition[field] for field in order})
            if key != rest:
                return key, f"{words} has no record yet; its key is spelled like the others of this connector"
        return rest, f"{words} has no record yet; its key is spelled as Connect's REST API would"


def _find_read(held: HeldOffset) -> tuple[HeldRecord, ...]:
    return tuple(record for record in held.records if is_task_key(record.key))


def _find_orders(partition: OffsetMap, holdings: Mapping[str, TopicHolding]) -> Iterator[tuple[str, ...]]:
    """In which orders the fields of this partition stand in keys that are there."""
    for holding in holdings.values():
        for record in holding.records:
            key = decode_key(record.key).key
            if key is not None and is_task_key(record.key) and key.partition.keys() == partition.keys():
                yield tuple(key.partition)
