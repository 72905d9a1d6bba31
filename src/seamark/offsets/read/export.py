"""Reading the offsets of many owners: a store at a time, not an owner at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from seamark.connect.clusters import Clusters
from seamark.connect.config import OWN_OFFSETS_TOPIC
from seamark.connect.connector import Connector
from seamark.core.fanout import fan_out
from seamark.core.refs import ConnectorType, build_group_owner
from seamark.errors import SeamarkError
from seamark.offsets.offset_export import OwnerExport
from seamark.offsets.offset_finding import OffsetFinding
from seamark.offsets.read.rest_words import compare_copy
from seamark.offsets.semantics.sink import find_spot
from seamark.offsets.stored_offset import StoredOffset, StoreReading
from seamark.offsets.stores.override_config import reads_elsewhere

if TYPE_CHECKING:
    from seamark.offsets.stores.stores import OffsetStores


@dataclass(slots=True)
class Harvest:
    """What was read so far, by owner."""

    owners: dict[str, OwnerExport] = field(default_factory=dict)
    findings: list[OffsetFinding] = field(default_factory=list)
    failures: dict[str, SeamarkError] = field(default_factory=dict)
    topics: dict[str, str] = field(default_factory=dict)
    # Sinks whose topics are in another Kafka cluster.
    elsewhere: set[str] = field(default_factory=set)

    def add(self, owner: str, stored: Iterable[StoredOffset]) -> None:
        """Keep the offsets of one owner. A value that nobody can read is in the records, and in no offset."""
        held = list(stored)
        offsets = tuple(
            one.as_offset() for one in held if one.offset is not None or one.evidence.value_verdict == "null"
        )
        records = tuple(record for one in held for record in (one.evidence, *one.others))
        self.owners[owner] = OwnerExport(owner, offsets, records)

    def join(self, other: Harvest) -> None:
        """Take what another reading found."""
        self.owners |= other.owners
        self.findings += other.findings
        self.failures |= other.failures
        self.topics |= other.topics
        self.elsewhere |= other.elsewhere


class OffsetReader:
    """Reads the offsets of whole clusters, or of some of their connectors."""

    def __init__(self, clusters: Clusters, stores: OffsetStores) -> None:
        self._clusters = clusters
        self._stores = stores

    def read_all(self) -> Harvest:
        """Everything that the Connect clusters of the context hold, also what connectors that are gone have left."""
        answers = self._clusters.ask(lambda client: client.read_connectors())
        harvest = Harvest(failures={f"connectors of {name}": error for name, error in answers.failures.items()})
        # A cluster whose workers are down still has its topic: everything in it is read.
        calls = {name: self._bind(name, answers.results.get(name, ()), None) for name in self._clusters.names}
        return self._gather(calls, harvest)

    def read_some(self, connectors: Sequence[Connector], groups: Sequence[str] = ()) -> Harvest:
        """The offsets of these connectors and consumer groups."""
        by_cluster: dict[str, list[Connector]] = {}
        for connector in connectors:
            by_cluster.setdefault(connector.cluster, []).append(connector)
        calls = {name: self._bind(name, found, [one.name for one in found]) for name, found in by_cluster.items()}
        harvest = self._gather(calls, Harvest())
        for group in groups:
            reading = self._stores.find_group(group).read()
            harvest.add(build_group_owner(group), reading.offsets)
        return harvest

    def add_topics(self, harvest: Harvest) -> None:
        """Take in the ids of the topics that are stood on. Offsets are worth saving also where nobody tells them."""
        near = (found for owner, found in harvest.owners.items() if owner not in harvest.elsewhere)
        spots = (find_spot(one.partition) for found in near for one in found.offsets)
        if names := sorted({spot[0] for spot in spots if spot is not None}):
            with suppress(SeamarkError):
                harvest.topics |= self._stores.read_topic_ids(names)

    def _bind(
        self, cluster: str, connectors: Sequence[Connector], only: Collection[str] | None
    ) -> Callable[[], Harvest]:
        return lambda: self._read_cluster(cluster, connectors, only)

    def _gather(self, calls: Mapping[str, Callable[[], Harvest]], harvest: Harvest) -> Harvest:
        answers = fan_out(calls)
        for found in answers.results.values():
            harvest.join(found)
        harvest.failures |= answers.failures
        return harvest

    def _read_cluster(self, cluster: str, connectors: Sequence[Connector], only: Collection[str] | None) -> Harvest:
        harvest = Harvest()
        sinks = [one for one in connectors if one.type is ConnectorType.SINK]
        own = [one for one in connectors if one.type is not ConnectorType.SINK and OWN_OFFSETS_TOPIC in one.config]
        names = None if only is None else sorted({one.name for one in connectors} - {one.name for one in sinks})
        workers = StoreReading("")
        if names is None or names:
            workers = self._stores.find_workers(cluster).read(names)
            harvest.findings += workers.findings
        by_name: dict[str, list[StoredOffset]] = {name: [] for name in names or ()}
        for stored in (*workers.offsets, *workers.forgotten):
            by_name.setdefault(stored.key.connector, []).append(stored)
        for name in sorted(by_name):
            harvest.add(f"{cluster}/{name}", by_name[name])
        for connector in own:
            self._try(harvest, connector, lambda one: self._add_own(harvest, one, workers))
        for connector in sinks:
            self._try(harvest, connector, lambda one: self._add_sink(harvest, one))
        return harvest

    def _try(self, harvest: Harvest, connector: Connector, read: Callable[[Connector], None]) -> None:
        """One owner that can't be read does not take the others with it."""
        try:
            read(connector)
        except SeamarkError as error:
            harvest.failures[connector.owner] = error

    def _add_own(self, harvest: Harvest, connector: Connector, workers: StoreReading) -> None:
        stores = self._stores.find(connector)
        if stores.second is None:
            return
        reading, _ = stores.read_first(connector.name)
        mine = tuple(one for one in workers.offsets if one.key.connector == connector.name)
        copy = StoreReading(workers.store, mine)
        harvest.findings += (*reading.findings, *compare_copy(reading, copy))
        harvest.add(connector.owner, (*reading.offsets, *reading.forgotten))

    def _add_sink(self, harvest: Harvest, connector: Connector) -> None:
        reading = self._stores.find(connector).first.read([connector.name])
        harvest.add(connector.owner, reading.offsets)
        if reads_elsewhere(connector):
            harvest.elsewhere.add(connector.owner)
