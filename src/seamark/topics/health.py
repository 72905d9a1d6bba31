"""Read what the topic checks need: a few requests for everything, none per partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from seamark.connect.clusters import Clusters
from seamark.connect.config import find_group
from seamark.connect.model import Connector
from seamark.core.readings import Reading, Severity
from seamark.core.refs import ConnectorType
from seamark.errors import NotFoundError, SeamarkError
from seamark.kafka.api import BrokersPort
from seamark.kafka.model import (
    LogOffsets,
    OffsetAndTimestamp,
    OffsetSpec,
    PartitionReading,
    TopicPartition,
    TopicSize,
    TopicStatus,
)
from seamark.topics.consumer_checks import examine_readers
from seamark.topics.health_checks import examine_balance, examine_copies, examine_expiry, examine_internal
from seamark.topics.health_model import (
    HealthCheck,
    HealthEvidence,
    Reader,
    TopicFinding,
    TopicHealth,
    find_retention_ms,
    find_safe_ms,
)

if TYPE_CHECKING:
    from seamark.context import Context


_RETENTION = "offsets.retention.minutes"


class HealthReader:
    """Reads everything once, and records by name what could not be read."""

    def __init__(self, context: Context, *, kafka: BrokersPort, clusters: Clusters, now_ms: int) -> None:
        self._context = context
        self._kafka = kafka
        self._clusters = clusters
        self._now_ms = now_ms
        self._failures: dict[str, SeamarkError] = {}

    def gather(self) -> HealthEvidence:
        """Read from the brokers and the Connect clusters. Raises if the list of topics can't be read."""
        cluster = self._kafka.read_cluster()
        reading = self._kafka.read_all_topics()
        self._failures |= reading.failures
        topics = {found.name: found for found in reading.items}
        sinks = self._read_sinks()
        readers = self._read_readers(sinks)
        spots = _find_led(readers, topics)
        earliest = self._take(self._kafka.read_log_offsets(spots, at=OffsetSpec.EARLIEST))
        latest = self._take(self._kafka.read_log_offsets(list(earliest), at=OffsetSpec.LATEST))
        retention = self._read_retention(readers)
        return HealthEvidence(
            self._context,
            cluster,
            topics,
            moving=self._read_moving(topics.values()),
            readers=readers,
            sinks=sinks,
            bounds=_build_bounds(earliest, latest),
            epochs={spot: stamp.leader_epoch for spot, stamp in latest.items() if stamp.leader_epoch is not None},
            aged=self._read_aged(list(latest), topics),
            idle=self._read_idle(readers, latest.keys(), retention),
            offsets_retention_seconds=retention,
            sizes=self._read_sizes(topics.values()),
            failures=self._failures,
        )

    def _read_moving(self, topics: Iterable[TopicStatus]) -> Mapping[TopicPartition, tuple[int, ...]]:
        """Read ongoing reassignments; only if a replica is missing, because it may be on its way."""
        if not any(topic.under_replicated for topic in topics):
            return {}
        try:
            return self._kafka.read_moving()
        except SeamarkError as error:
            self._failures["reassignments"] = error
            return {}

    def _read_sinks(self) -> dict[str, tuple[Connector, ...]]:
        """Return the sinks by their group."""
        answers = self._clusters.ask(lambda client: client.read_connectors())
        self._failures |= answers.failures
        found: dict[str, list[Connector]] = {}
        for name, connectors in answers.results.items():
            for one in connectors:
                if one.type is ConnectorType.SINK:
                    group = find_group(one.name, one.config, self._clusters.settings(name))
                    found.setdefault(group, []).append(one)
        return {group: tuple(owners) for group, owners in found.items()}

    def _read_readers(self, sinks: Mapping[str, tuple[Connector, ...]]) -> tuple[Reader, ...]:
        try:
            listings = self._kafka.read_consumer_groups()
            wanted = {found.name: None for found in listings.items if found.has_offsets}
            committed = self._kafka.read_committed(wanted, with_metadata=False)
        except SeamarkError as error:
            self._failures["groups"] = error
            return ()
        self._failures |= {**listings.failures, **_without_gone(committed.failures)}
        states = {found.name: found.state for found in listings.items}
        return tuple(
            Reader(found.group, states[found.group], found.offsets, sinks.get(found.group, ()))
            for found in committed.items
        )

    def _take(self, reading: PartitionReading[OffsetAndTimestamp | None]) -> dict[TopicPartition, OffsetAndTimestamp]:
        self._failures |= _without_gone(
            {f"{topic}-{number}": error for (topic, number), error in reading.failures.items()}
        )
        return {spot: stamp for spot, stamp in reading.found.items() if stamp is not None}

    def _read_aged(
        self, spots: Sequence[TopicPartition], topics: Mapping[str, TopicStatus]
    ) -> dict[TopicPartition, int | None]:
        kept = {name: find_retention_ms(topic) for name, topic in topics.items()}
        lengths = {spot: length for spot in spots if (length := kept[spot[0]]) is not None}
        return self._read_since({spot: self._now_ms - find_safe_ms(length) for spot, length in lengths.items()})

    def _read_retention(self, readers: Sequence[Reader]) -> float | None:
        """Read how long the brokers keep the offsets of an empty group; only if a sink's group is empty."""
        if not any(reader.sinks and reader.is_quiet for reader in readers):
            return None
        try:
            told = self._kafka.read_broker_setting(_RETENTION)
        except SeamarkError as error:
            self._failures[_RETENTION] = error
            return None
        return int(told) * 60.0 if told.isdecimal() else None

    def _read_idle(
        self, readers: Sequence[Reader], known: Iterable[TopicPartition], retention_seconds: float | None
    ) -> dict[TopicPartition, int | None]:
        if retention_seconds is None:
            return {}
        known = frozenset(known)
        since = self._now_ms - find_safe_ms(int(retention_seconds * 1000))
        quiet = [reader for reader in readers if reader.sinks and reader.is_quiet]
        return self._read_since({spot: since for reader in quiet for spot in reader.offsets if spot in known})

    def _read_since(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        if not times:
            return {}
        reading = self._kafka.read_offsets_at(times)
        self._failures |= _without_gone(
            {f"{topic}-{number}": error for (topic, number), error in reading.failures.items()}
        )
        return {spot: stamp.offset if stamp else None for spot, stamp in reading.found.items()}

    def _read_sizes(self, topics: Iterable[TopicStatus]) -> dict[str, TopicSize]:
        wanted = {topic.name: [partition.id for partition in topic.partitions] for topic in topics}
        try:
            reading: Reading[TopicSize] = self._kafka.read_sizes(wanted)
        except SeamarkError as error:
            self._failures["sizes"] = error
            return {}
        self._failures |= reading.failures
        return {found.name: found for found in reading.items}


def _without_gone(failures: Mapping[str, SeamarkError]) -> dict[str, SeamarkError]:
    """Remove what was deleted between two requests, which is not a failure."""
    return {name: error for name, error in failures.items() if not isinstance(error, NotFoundError)}


def _find_led(readers: Sequence[Reader], topics: Mapping[str, TopicStatus]) -> list[TopicPartition]:
    """Return the partitions with committed offsets that exist and have a leader."""
    led = {spot for topic in topics.values() for spot in topic.led_spots}
    return [spot for spot in dict.fromkeys(spot for reader in readers for spot in reader.offsets) if spot in led]


def _build_bounds(
    earliest: Mapping[TopicPartition, OffsetAndTimestamp], latest: Mapping[TopicPartition, OffsetAndTimestamp]
) -> dict[TopicPartition, LogOffsets]:
    return {spot: LogOffsets(earliest[spot].offset, end.offset) for spot, end in latest.items()}


CHECKS: tuple[Callable[[HealthEvidence], Iterator[TopicFinding]], ...] = (
    examine_copies,
    examine_internal,
    examine_readers,
    examine_expiry,
    examine_balance,
)
_WORST_FIRST = tuple(Severity)
_ORDER = tuple(HealthCheck)


def read_topic_health(context: Context, *, kafka: BrokersPort, clusters: Clusters, now: float) -> TopicHealth:
    """Read everything once, and check it."""
    return examine(HealthReader(context, kafka=kafka, clusters=clusters, now_ms=int(now * 1000)).gather())


def examine(evidence: HealthEvidence) -> TopicHealth:
    """Return the results of the checks. No server is asked."""
    findings = [found for check in CHECKS for found in check(evidence)]
    return TopicHealth(
        tuple(sorted(findings, key=_rank)),
        topics={name: len(topic.partitions) for name, topic in evidence.topics.items()},
        groups=len(evidence.readers),
        failures=evidence.failures,
    )


def _rank(found: TopicFinding) -> tuple[int, int, str, str]:
    return _WORST_FIRST.index(found.severity), _ORDER.index(found.check), found.topic, found.reader
