"""One connector's offsets for the steps of a change: read from the stores, written by either route."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from seamark.changes.effect import Preview
from seamark.connect.config import find_group
from seamark.connect.model import Connector
from seamark.core.offsets import Offset, OffsetMap, Order, spell_identity
from seamark.core.readings import fan_out
from seamark.core.refs import ConnectorType
from seamark.core.time import Deadline, limit_requests, read_clock
from seamark.errors import NotFoundError, RefusedError, SeamarkError, UnknownOutcomeError
from seamark.kafka.groups import Committed, GroupStatus
from seamark.kafka.model import HeldRecord
from seamark.offsets.codec.codec import decode_key, encode_key, encode_rest_key
from seamark.offsets.model import (
    CompletedOffsets,
    CurrentOffset,
    OffsetAnomaly,
    OffsetWrite,
    StoredOffset,
    StoreReading,
    TopicHolding,
)
from seamark.offsets.semantics.sinks import find_commits
from seamark.offsets.stores.stores import build_override_config, find_own_topic
from seamark.offsets.stores.topic import check_own_records, check_record_topic, is_task_key

if TYPE_CHECKING:
    from seamark.connect.api import ConnectPort
    from seamark.context import ConnectSettings, Context
    from seamark.offsets.semantics import OffsetSemantics
    from seamark.offsets.stores.stores import OffsetStores


# The time a step may send (`ChangeTiming.send_seconds`, its definition), less the time of the check before it.
ORPHAN_WRITE_SECONDS = 15.0


class OrphanedOffsets:
    """An `OrphanedOffsetsPort` over one Connect cluster's offsets topic."""

    def __init__(self, cluster: str, *, context: Context, stores: OffsetStores) -> None:
        self._cluster = cluster
        self._context = context
        self._stores = stores

    def read(self, owners: Collection[str]) -> tuple[HeldRecord, ...]:
        """Read every record of these connectors: each key encoding, on each partition, including tombstones."""
        return tuple(build_records(self.read_stored(owners)))

    def read_stored(self, owners: Collection[str]) -> StoreReading:
        """Return what the topic stores for these connectors, each partition once, with its records."""
        return self._stores.find_topic(self._cluster).read(owners)

    def write(self, owners: Collection[str], records: Sequence[HeldRecord]) -> None:
        """Write these records of the owners, each to its own topic partition, in this order."""
        from seamark.kafka.transaction import write_records  # noqa: PLC0415

        check_own_records(records, connectors=owners, topics=(self._context.connect[self._cluster].offsets_topic,))
        # As for connector offsets: a process that resumes the change relies on no write arriving after this time.
        until = read_clock() + self._context.journal.in_flight_seconds
        write_records(self._context.kafka.client_config(), records, timeout_seconds=ORPHAN_WRITE_SECONDS, until=until)


def build_records(reading: StoreReading) -> Iterator[HeldRecord]:
    """Return the records of a topic reading."""
    for stored in (*reading.offsets, *reading.forgotten):
        yield from build_stored_records(stored)


def build_stored_records(stored: StoredOffset) -> Iterator[HeldRecord]:
    """Return the topic records of one offset; files and groups have none."""
    for found in (stored.evidence, *stored.others):
        if found.key is not None and found.partition is not None:
            yield HeldRecord(found.store.removeprefix("topic "), found.partition, found.key, found.value)


# The time a step may send: half of `ChangeTiming.send_seconds` (its definition), because there may be two topics.
WRITE_SECONDS = 10.0
_PRODUCER = "producer.override."
# 16 at a time, about 1 s each on a busy machine: done within half of WRITE_SECONDS.
_MOST_FENCED = 64


class ConnectorAccess:
    """The common part of both routes to a connector's offsets: its config and its offset semantics."""

    def __init__(
        self,
        name: str,
        *,
        context: Context,
        client: ConnectPort,
        settings: ConnectSettings,
        kept: Connector | None = None,
    ) -> None:
        """Create the access. With `kept`, Connect is not asked: the connector doesn't, or may not, exist."""
        self._name = name
        self._kept = kept
        self._context = context
        self._client = client
        self._settings = settings

    def alter(self, offsets: Sequence[Offset]) -> object:
        """Write offsets through Connect's REST API."""
        return self._client.patch_offsets(self._name, offsets)

    def compare(self, left: OffsetMap | None, right: OffsetMap | None) -> Order:
        """Compare two offsets of the same partition."""
        return self._find_meaning(self._read_connector()).compare(left, right)

    def describe(self, partition: OffsetMap, offset: OffsetMap | None) -> tuple[str, str]:
        """Return a partition and an offset as short texts."""
        return self._find_meaning(self._read_connector()).describe(partition, offset)

    def _find_meaning(self, connector: Connector) -> OffsetSemantics:
        from seamark.offsets.semantics.registry import read_meaning  # noqa: PLC0415

        return read_meaning(connector, self._client)

    def _read_connector(self) -> Connector:
        return self._kept or self._client.read_connector(self._name)


class ConnectorOffsets(ConnectorAccess):
    """An `OffsetPort` over the clients of one context."""

    def __init__(
        self,
        name: str,
        *,
        context: Context,
        client: ConnectPort,
        settings: ConnectSettings,
        stores: OffsetStores,
        kept: Connector | None = None,
        write_seconds: float = WRITE_SECONDS,
    ) -> None:
        super().__init__(name, context=context, client=client, settings=settings, kept=kept)
        self._stores = stores
        self._write_seconds = write_seconds

    def read(self, partitions: Sequence[OffsetMap]) -> tuple[CurrentOffset, ...]:
        """Read these partitions from the stores, in the given order."""
        return self._read_held(self._read_connector(), partitions)

    def _read_held(self, connector: Connector, partitions: Sequence[OffsetMap]) -> tuple[CurrentOffset, ...]:
        first, second = self._read_stores(connector)
        return tuple(_build_held(partition, first, second) for partition in partitions)

    def read_all(self) -> tuple[CurrentOffset, ...]:
        """Read every stored offset that is not deleted."""
        first, second = self._read_stores(self._read_connector())
        return tuple(
            _build_held(found.key.partition, first, second)
            for found in first.offsets.values()
            if not found.evidence.is_tombstone
        )

    def _read_stores(self, connector: Connector) -> tuple[Content, Content]:
        """Read the store that the tasks use and, if the connector has its own topic, the copy in the workers' topic."""
        places = self._stores.find(connector)
        # The worker creates a connector's own topic when it first needs it.
        first, _ = places.read_first(self._name)
        second = _NOTHING if places.second is None else _index(places.second.read([self._name]))
        return _index(first), second

    def commit(self, offsets: Sequence[Offset]) -> None:
        """Commit offsets for the group of a sink, in the Kafka cluster that has its topics."""
        from seamark.groups.actions import change_commits  # noqa: PLC0415

        connector = self._read_connector()
        commits = {
            spot: None if number is None else Committed(number)
            for spot, number in find_commits(connector.owner, offsets).items()
        }
        group = find_group(self._name, connector.config, self._settings)
        change_commits(self._stores.find_brokers(connector), group, commits)

    def complete(self, held: Sequence[CurrentOffset]) -> CompletedOffsets:
        """Return the same offsets, with new records for those that no task would find."""
        keys = NewKeys(self._read_connector(), context=self._context, settings=self._settings, stores=self._stores)
        return keys.complete(held)

    def find_holders(self) -> tuple[str, ...]:
        """Return the workers that are assigned the connector or one of its tasks, according to the brokers."""
        from seamark.kafka.worker_group import read_worker_loads  # noqa: PLC0415

        group = self._settings.group_id
        if group is None:
            raise self._context.missing(f"connect.{self._settings.name}.group_id")
        loads = read_worker_loads(self._kafka_config(), group, timeout_seconds=self._write_seconds / 2)
        return tuple(sorted(url for url, names in loads.items() if self._name in names))

    def write(self, records: Sequence[HeldRecord], *, into: str = "") -> None:
        """Write these records, each to its own topic partition, in this order.

        They must be offsets of this connector in one of its topics; `into` is a topic that it will use from now on.
        """
        # A process that resumes the change relies on no write arriving after this time.
        until = read_clock() + self._context.journal.in_flight_seconds
        connector = self._read_connector()
        own = find_own_topic(connector, self._settings)
        if into:
            check_record_topic(into, self._context, is_for_offsets=True)
        check_own_records(records, connectors=(self._name,), topics=(own, self._settings.offsets_topic, into))
        elsewhere = build_override_config(connector.config, self._context, prefix=_PRODUCER, name=connector.owner)
        if elsewhere is not None and own == self._settings.offsets_topic:
            raise RefusedError(
                f"the offsets of {connector.owner} are in topic {own} of another Kafka cluster, which has the same "
                "name as "
                "the workers' offsets topic; no changes were made",
                cause="seamark can't distinguish the records of the two topics",
                hint="set another offsets.storage.topic in the connector's config",
            )
        self._fence(connector, elsewhere or self._kafka_config())
        written = 0
        for is_elsewhere, found in groupby(records, key=lambda one: elsewhere is not None and one.topic == own):
            batch = tuple(found)
            try:
                config = elsewhere if elsewhere is not None and is_elsewhere else self._kafka_config()
                # The deadline of the request applies to its first record; the others have until `until`.
                with limit_requests(Deadline(until)) if written else nullcontext():
                    self._write(config, batch, until=until)
            except SeamarkError as error:
                raise (_build_half(error, written, len(records)) if written else error) from error
            written += len(batch)

    def _fence(self, connector: Connector, config: Mapping[str, str]) -> None:
        """With exactly-once, fence tasks that do not know about the stop, as Connect does before its own write.

        A task that keeps running would commit its own offset after this write.
        """
        if not self._settings.exactly_once:
            return
        if self._settings.group_id is None:
            raise self._context.missing(f"connect.{connector.cluster}.group_id")
        from seamark.kafka.transaction import fence_producer  # noqa: PLC0415

        ids = [f"{self._settings.group_id}-{self._name}-{task}" for task in range(_count_tasks(connector))]
        calls = {one: partial(fence_producer, config, one, timeout_seconds=self._write_seconds / 2) for one in ids}
        for error in fan_out(calls).failures.values():
            raise error

    def _kafka_config(self) -> Mapping[str, str]:
        return self._context.kafka.client_config()

    def _write(self, config: Mapping[str, str], records: Sequence[HeldRecord], *, until: float) -> None:
        from seamark.kafka.transaction import write_records  # noqa: PLC0415

        write_records(config, records, timeout_seconds=self._write_seconds, until=until)

    def read_members(self) -> GroupStatus | None:
        """Read the consumer group of a sink."""
        connector = self._read_connector()
        if connector.type is not ConnectorType.SINK:
            return None
        group = find_group(self._name, connector.config, self._settings)
        # A sink may consume from another Kafka cluster, which then has its group.
        reading = self._stores.find_brokers(connector).read_groups([group])
        for error in reading.failures.values():
            raise error
        return reading.items[0] if reading.items else None

    def preview(self, offsets: Sequence[Offset]) -> tuple[Preview, ...]:
        """Return what changes if these offsets replace the stored ones."""
        from seamark.offsets.read.preview import PreviewCounter  # noqa: PLC0415

        connector = self._read_connector()
        counter = PreviewCounter(
            self._context,
            meaning=self._find_meaning(connector),
            config=connector.config,
            brokers=lambda: self._stores.find_brokers(connector),
        )
        return counter.count(self._read_held(connector, [found.partition for found in offsets]), offsets)

    def read_topic(self, topic: str) -> TopicHolding:
        """Read what one offsets topic of the context's Kafka cluster stores for the connector."""
        return self._stores.read_holding(self._read_connector(), topic)

    def read_writes(self, partitions: Sequence[OffsetMap]) -> tuple[tuple[OffsetWrite, ...], ...]:
        """Read each partition's remaining writes where the tasks look them up, oldest first."""
        from seamark.offsets.read.history import read_writes  # noqa: PLC0415

        store = self._stores.find(self._read_connector()).first
        return read_writes(store, self._name, partitions)

    def find_silent(self, workers: Sequence[str]) -> tuple[str, ...]:
        """Return the workers that can't be shown to be alive: not in the worker group, or unresponsive.

        With exactly-once, Connect itself fences workers that come back. Without `group_id` in the context, the only
        evidence is the response of a worker that the context lists.
        """
        from seamark.kafka.worker_group import read_worker_ids  # noqa: PLC0415

        if self._settings.exactly_once:
            return ()
        group = self._settings.group_id
        if group is None:
            return self._client.find_silent(workers)
        members = read_worker_ids(self._kafka_config(), group, timeout_seconds=self._write_seconds / 2)
        return self._client.find_silent(workers, members=members)

    def _read_connector(self) -> Connector:
        connector = super()._read_connector()
        if connector.type is ConnectorType.UNKNOWN:
            raise RefusedError(
                f"can't determine whether {connector.owner} is a source or a sink; no changes were made",
                hint="check whether its plugin is missing on a worker: seamark plugins list",
            )
        return connector


def _count_tasks(connector: Connector) -> int:
    """Return the maximum number of tasks that a connector may have had."""
    text = connector.config.get("tasks.max", "1")
    tasks = int(text) if text.isascii() and text.isdecimal() else 1
    if tasks > _MOST_FENCED:
        raise RefusedError(
            f"{connector.owner} may have {tasks} tasks, too many to fence in time; no changes were made",
            cause="its offsets can't be written through REST, and its workers use exactly-once delivery",
            hint=f"lower its tasks.max to {_MOST_FENCED} or less for this change, or stop its workers",
        )
    return tasks


def _build_half(error: SeamarkError, written: int, total: int) -> SeamarkError:
    if isinstance(error, UnknownOutcomeError):
        return error
    return UnknownOutcomeError(
        f"{written} of {total} records were written, the next one failed",
        cause=f"{error.message}: {error.cause}",
        hint=error.hint,
    )


@dataclass(frozen=True, slots=True)
class Content:
    """What one store holds for a connector, by partition; `misplaced` have a record on a wrong partition."""

    offsets: Mapping[str, StoredOffset] = field(default_factory=dict)
    misplaced: frozenset[str] = frozenset()


_NOTHING = Content()


def _index(reading: StoreReading) -> Content:
    misplaced = (found.partition for found in reading.findings if found.anomaly is OffsetAnomaly.MISPLACED)
    return Content(
        {found.key.identity: found for found in (*reading.offsets, *reading.forgotten)},
        frozenset(spell_identity(partition) for partition in misplaced if partition is not None),
    )


def _build_held(partition: OffsetMap, primary: Content, copy: Content) -> CurrentOffset:
    name = spell_identity(partition)
    first, second = primary.offsets.get(name), copy.offsets.get(name)
    return CurrentOffset(
        partition,
        None if first is None else first.offset,
        (*_build_records(first), *_build_records(second)),
        _find_doubt(name, first, second),
        is_misplaced=name in primary.misplaced or name in copy.misplaced,
        is_certain=first is None or first.is_certain,
    )


def _find_doubt(name: str, first: StoredOffset | None, second: StoredOffset | None) -> str:
    """Return why seamark can't determine which record of a partition a task reads; "" if it can."""
    if first is None:
        if all(decode_key(record.key).is_rest_spelling for record in _build_records(second)):
            return ""
        return f"{name} is only in the workers' topic, with a key encoding that REST doesn't use"
    if not first.is_certain:
        places = ", ".join(found.place for found in (first.evidence, *first.others))
        return f"{name} is in several different records: {places}"
    if first.evidence.key is not None and not is_task_key(first.evidence.key):
        return f"{name} is only in {first.evidence.place}, with a key encoding that no task uses: it is never read"
    return ""


def _build_records(stored: StoredOffset | None) -> Iterator[HeldRecord]:
    return iter(()) if stored is None else build_stored_records(stored)


class NewKeys:
    """Adds a record to every topic to which Connect would write, for a partition that no task would find.

    Existing records stay unchanged, to the byte.
    """

    def __init__(
        self, connector: Connector, *, context: Context, settings: ConnectSettings, stores: OffsetStores
    ) -> None:
        self._connector = connector
        self._context = context
        self._settings = settings
        self._stores = stores

    def complete(self, held: Sequence[CurrentOffset]) -> CompletedOffsets:
        """Return the same offsets with records. The first record of each is in the topic that the tasks read."""
        topics = self._find_topics()
        lacking = [one for one in held if topics[0] not in {record.topic for record in find_read_records(one)}]
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
        """Raise if the place of a new key is unknown, because it must never be guessed."""
        owner = self._connector.owner
        if not self._stores.knows_home(self._connector):
            raise RefusedError(
                f"can't determine the topic partition of a new key of {owner}; no changes were made",
                cause="the config has a custom partitioner",
                hint="run the connector until it has stored an offset, then move that",
            )
        own = find_own_topic(self._connector, self._settings)
        if own and build_override_config(self._connector.config, self._context, prefix=_PRODUCER, name=owner):
            raise RefusedError(
                f"{owner} stores its offsets in another Kafka cluster and has no record there yet; no changes were "
                "made",
                hint="run the connector until it has stored an offset, then move that",
            )

    def _read(self, topic: str) -> TopicHolding:
        owner = self._connector.owner
        try:
            return self._stores.read_holding(self._connector, topic)
        except NotFoundError as missing:
            raise RefusedError(
                f"topic {topic}, which stores the offsets of {owner}, does not exist yet; no changes were made",
                cause=missing.message,
                hint="start the connector once, because its workers create the topic on the first start",
            ) from missing

    def _complete_one(
        self, held: CurrentOffset, holdings: Mapping[str, TopicHolding]
    ) -> tuple[tuple[HeldRecord, ...], str]:
        there = find_read_records(held)
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
        """Return the key and a note about it. Other keys of the connector show the field order of its tasks."""
        owner, words = self._connector.owner, spell_identity(partition)
        orders = set(_find_orders(partition, holdings))
        if len(orders) > 1:
            raise RefusedError(
                f"can't determine the key encoding that the tasks of {owner} use for {words}; no changes were made",
                cause=f"its other keys have their fields in {len(orders)} different orders",
                hint=f"list them with seamark offsets show {owner}",
            )
        name = self._connector.name
        rest = encode_rest_key(name, partition)
        for order in orders:
            key = encode_key(name, {field: partition[field] for field in order})
            if key != rest:
                return key, f"{words} has no record yet; its key gets the encoding of the connector's other keys"
        return rest, f"{words} has no record yet; its key gets the encoding of Connect's REST API"


def find_read_records(held: CurrentOffset) -> tuple[HeldRecord, ...]:
    """Return the records that a task may read. Records with other keys are never changed."""
    return tuple(record for record in held.records if is_task_key(record.key))


def _find_orders(partition: OffsetMap, holdings: Mapping[str, TopicHolding]) -> Iterator[tuple[str, ...]]:
    """Return the orders in which existing keys have the fields of this partition."""
    for holding in holdings.values():
        for record in holding.records:
            key = decode_key(record.key).key
            if key is not None and is_task_key(record.key) and key.partition.keys() == partition.keys():
                yield tuple(key.partition)
