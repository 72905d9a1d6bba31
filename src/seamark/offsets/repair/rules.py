"""Determine which partitions of which sources need a repair, and which value each gets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seamark.connect.model import Connector
from seamark.core.offsets import Offset, OffsetMap, spell_identity, spell_offset
from seamark.core.refs import ConnectorType
from seamark.errors import NotFoundError, RefusedError, UnsupportedError
from seamark.kafka.model import HeldRecord
from seamark.offsets.codec.codec import decode_key, decode_value, encode_rest_key
from seamark.offsets.codec.verdicts import ValueVerdict
from seamark.offsets.model import CurrentOffset, StoredOffset, StoredRecord, StoreReading
from seamark.offsets.read.connector import build_stored_records
from seamark.offsets.stores.topic import Home, TopicStore, build_home, is_task_key

if TYPE_CHECKING:
    from seamark.connect.clusters import Clusters
    from seamark.connectors.service import Connectors
    from seamark.offsets.stores.stores import OffsetStores


NEWEST = "newest"
"""Selects the record that was written last, if several differ."""

_READABLE = (ValueVerdict.GOOD, ValueVerdict.TOMBSTONE)


@dataclass(frozen=True, slots=True)
class RepairRule:
    """Selects the value for one partition: that of the record with `key` on partition `where` of the topic.

    The value is read when it is written, not when the plan is created: a running task progresses until it stops. Unless
    the user chose this record (`said`), a record of the same key on the correct partition takes precedence, because
    tasks write there.
    """

    partition: OffsetMap
    where: int
    key: bytes
    said: bool = False

    @property
    def identity(self) -> str:
        """Return the identity that distinguishes the partition from others."""
        return spell_identity(self.partition)


def is_anomalous(stored: StoredOffset, home: Home) -> bool:
    """Return whether a repair is needed: several records, one on a wrong partition, or one that no task reads."""
    found = stored.evidence
    if stored.others or found.key is None:
        return bool(stored.others)
    return found.partition != home(found.key) or not is_task_key(found.key)


def choose_record(stored: StoredOffset, take: str = "") -> StoredRecord | None:
    """Return the record whose value is used; None if it is ambiguous and the user chose none.

    `take` chooses it if records differ: `newest`, or a record's location.
    """
    every = (stored.evidence, *stored.others)
    readable = [found for found in every if found.value_verdict in _READABLE and found.key is not None]
    named = [found for found in readable if found.place == take]
    if named:
        return named[0]
    return stored.evidence if stored.evidence in readable and (stored.is_certain or take == NEWEST) else None


def settle_rule(rule: RepairRule, home: Home) -> RepairRule:
    """Return the rule for checking a repair: the value is now on the correct partition, in a kept encoding."""
    key = rule.key if is_task_key(rule.key) else _spell_rest(rule)
    where = home(key)
    return RepairRule(rule.partition, rule.where if where is None else where, key)


def build_repaired(
    records: Sequence[HeldRecord],
    rule: RepairRule,
    *,
    topic: str,
    home: Home,
    settled: bool = False,
) -> tuple[HeldRecord, ...]:
    """Build the target records of one partition: those on wrong partitions come first.

    Every key encoding that a task may look up, and every copy of it, gets the same value. Keys in an encoding that no
    task uses stay unchanged. `settled` is for the check afterwards: a missing record means "no value".
    """
    held = {(record.partition, record.key): record.value for record in records}
    value = held.get((rule.where, rule.key)) if settled else _find_value(held, rule, home)
    wanted: dict[tuple[int, bytes], bytes | None] = {}
    kept = _find_kept(held, rule)
    for key in kept:
        place = home(key)
        if place is not None:
            wanted[place, key] = value
    rest = [place for place in held if place not in wanted]
    copies = [HeldRecord(topic, where, key, value) for where, key in rest if key in kept]
    homes = [HeldRecord(topic, where, key, found) for (where, key), found in wanted.items()]
    return (*copies, *homes)


def find_records(records: Iterable[HeldRecord], rule: RepairRule) -> list[HeldRecord]:
    """Return those of a connector's records that belong to the partition of a rule."""
    return [
        record
        for record in records
        if (key := decode_key(record.key).key) is not None and key.identity == rule.identity
    ]


def _find_value(held: Mapping[tuple[int, bytes], bytes | None], rule: RepairRule, home: Home) -> bytes | None:
    place = (rule.where, rule.key)
    at_home = home(rule.key)
    if not rule.said and at_home is not None and (at_home, rule.key) in held:
        place = (at_home, rule.key)
    if place not in held:
        raise RefusedError(
            f"the chosen record of {rule.identity} does not exist any more; no changes were made",
            cause=f"partition {rule.where} has no record with its key",
            hint="create a new plan and review it",
        )
    return held[place]


def _find_kept(held: Mapping[tuple[int, bytes], bytes | None], rule: RepairRule) -> list[bytes]:
    keys = list(dict.fromkeys(key for _, key in held if is_task_key(key)))
    # If no task reads any of them, use the encoding of REST and of most tasks.
    return keys or [_spell_rest(rule)]


def _spell_rest(rule: RepairRule) -> bytes:
    return encode_rest_key(decode_key(rule.key).connector or "", rule.partition)


_TOPIC = "topic "
_ELSEWHERE = ("producer.override.bootstrap.servers", "consumer.override.bootstrap.servers")


@dataclass(frozen=True, slots=True)
class AnomalousPartition:
    """One partition with anomalous records: the records, the rule that selects the value, and that value."""

    rule: RepairRule
    records: tuple[HeldRecord, ...]
    topic: str
    home: Home
    offset: Offset
    held: Offset
    is_certain: bool = True

    @property
    def is_moved(self) -> bool:
        """Return whether the effective offset changes, as far as it can be determined."""
        return spell_offset(self.offset.offset) != spell_offset(self.held.offset)

    @property
    def is_misplaced(self) -> bool:
        """Return whether a key that a task may look up is on a wrong partition."""
        return any(one.partition != self.home(one.key) and is_task_key(one.key) for one in self.records)

    def build(self) -> tuple[HeldRecord, ...]:
        """Return the target records."""
        return build_repaired(self.records, self.rule, topic=self.topic, home=self.home)

    def is_needed(self) -> bool:
        """Return whether any record differs from its target."""
        held = {record.place: record.value for record in self.records}
        return any(held.get(one.place) != one.value for one in self.build())


@dataclass(frozen=True, slots=True)
class AnomalousOwner:
    """A source with anomalous records in its topic."""

    connector: Connector
    topic: str
    home: Home
    partitions: tuple[AnomalousPartition, ...]

    @property
    def moved(self) -> tuple[Offset, ...]:
        """Return the offsets of its partitions that differ from the effective ones."""
        return tuple(one.offset for one in self.partitions if one.is_moved)

    @property
    def has_misplaced(self) -> bool:
        """Return whether one of its keys is on several partitions of the topic, or on a wrong one."""
        return any(one.is_misplaced for one in self.partitions)


class AnomalyFinder:
    """Searches the topics of sources for anomalies."""

    def __init__(self, clusters: Clusters, *, connectors: Connectors, stores: OffsetStores) -> None:
        self._clusters = clusters
        self._connectors = connectors
        self._stores = stores

    def read(self, owners: Sequence[str], take: str) -> list[AnomalousOwner]:
        """Return those of these owners that have anomalous records."""
        connectors = [self._connectors.get(owner) for owner in dict.fromkeys(owners)]
        return self._build(connectors, take)

    def read_all(self, take: str) -> list[AnomalousOwner]:
        """Return all sources of the context that have anomalous records."""
        reading = self._connectors.list()
        if reading.failures:
            raise RefusedError(
                "some Connect clusters did not respond; no changes were made",
                cause="; ".join(f"{name}: {error.message}" for name, error in reading.failures.items()),
                hint="pass the owners to repair, or retry when all Connect clusters respond",
            )
        return self._build([one for one in reading.items if self._is_readable(one)], take)

    def _is_readable(self, connector: Connector) -> bool:
        """Return whether a connector is a source whose records are in a topic of this Kafka cluster."""
        if connector.type is not ConnectorType.SOURCE or any(connector.config.get(key) for key in _ELSEWHERE):
            return False
        return self._clusters.settings(connector.cluster).offsets_file is None

    def _build(self, connectors: Sequence[Connector], take: str) -> list[AnomalousOwner]:
        found: list[AnomalousOwner] = []
        undecided: list[tuple[Connector, StoredOffset]] = []
        for connector, store, reading in self._read_each(connectors):
            home = build_home(reading.partitions)
            if reading.partitions is None:
                raise RefusedError(
                    f"can't determine the topic partitions of the offsets of {connector.owner}; no changes were made",
                    cause="its config or its workers' properties set a custom partitioner",
                )
            topic = store.name.removeprefix(_TOPIC)
            odd = [
                one
                for one in (*reading.offsets, *reading.forgotten)
                if one.key.connector == connector.name and is_anomalous(one, home)
            ]
            undecided += [(connector, one) for one in odd if choose_record(one, take) is None]
            partitions = tuple(
                _build_partition(one, taken, take=take, topic=topic, home=home)
                for one in odd
                if (taken := choose_record(one, take)) is not None
            )
            if partitions:
                found.append(AnomalousOwner(connector, topic, home, partitions))
        _refuse_undecided(undecided)
        _refuse_unknown(found, take)
        return found

    def _read_each(self, connectors: Sequence[Connector]) -> Iterator[tuple[Connector, TopicStore, StoreReading]]:
        """Read each connector's records from its topic. The workers' topic is read once per Connect cluster."""
        shared: dict[str, list[Connector]] = {}
        for connector in connectors:
            places = self._stores.find(connector)
            store = places.first
            if not isinstance(store, TopicStore):
                raise UnsupportedError(
                    f"can't repair the offsets of {connector.owner}: they are not in a topic, but in {store.name}",
                    hint="use seamark offsets move or seamark offsets reset",
                )
            if any(connector.config.get(key) for key in _ELSEWHERE):
                raise UnsupportedError(
                    f"the offsets of {connector.owner} are in another Kafka cluster; no changes were made",
                    hint="create a context for that Kafka cluster",
                )
            if places.second is None:
                shared.setdefault(connector.cluster, []).append(connector)
            else:
                reading, _ = places.read_first(connector.name)
                yield connector, store, reading
        for cluster, listed in shared.items():
            topic = self._stores.find_topic(cluster)
            reading = topic.read([one.name for one in listed])
            yield from ((one, topic, reading) for one in listed)


def _build_partition(
    stored: StoredOffset, taken: StoredRecord, *, take: str, topic: str, home: Home
) -> AnomalousPartition:
    rule = RepairRule(stored.key.partition, taken.partition or 0, taken.key or b"", said=taken.place == take)
    return AnomalousPartition(
        rule,
        tuple(build_stored_records(stored)),
        topic,
        home,
        offset=Offset(stored.key.partition, taken.offset),
        held=Offset(stored.key.partition, stored.offset),
        is_certain=stored.is_certain,
    )


def read_anomalous_partition(rule: RepairRule, held: CurrentOffset, *, topic: str, home: Home) -> AnomalousPartition:
    """Apply one rule to the records that currently exist.

    Raises:
        RefusedError: The record whose value was selected no longer exists.
    """
    records = tuple(record for record in held.records if record.topic == topic)
    taken = next((one for one in records if (one.partition, one.key) == (rule.where, rule.key)), None)
    found = AnomalousPartition(
        rule,
        records,
        topic,
        home,
        offset=Offset(rule.partition, None if taken is None else decode_value(taken.value).offset),
        held=Offset(held.partition, held.offset),
        is_certain=held.is_certain,
    )
    found.build()
    return found


def _refuse_undecided(undecided: Sequence[tuple[Connector, StoredOffset]]) -> None:
    if not undecided:
        return
    words = [
        f"{one.place} has {'no value' if one.value is None else one.value.decode(errors='backslashreplace')}"
        for _, stored in undecided
        for one in (stored.evidence, *stored.others)
        if one.key is not None and is_task_key(one.key)
    ]
    names = ", ".join(dict.fromkeys(connector.owner for connector, _ in undecided))
    raise RefusedError(
        f"the records of {names} differ, and seamark can't determine which one the task uses; no changes were made",
        cause="; ".join(words[:10]) or "no task reads any of them",
        hint="choose the value: --prefer newest, or --prefer LOCATION",
    )


def _refuse_unknown(found: Sequence[AnomalousOwner], take: str) -> None:
    said = any(one.rule.said for owner in found for one in owner.partitions)
    if take not in ("", NEWEST) and not said:
        raise NotFoundError(
            f"no anomalous record at {take}; no changes were made",
            cause="the record is not the newest of its key, can't be read, or has no finding",
            hint="list the records and their locations with seamark offsets show OWNER --raw",
        )
