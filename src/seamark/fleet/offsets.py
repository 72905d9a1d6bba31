"""What the owners of a fleet remember."""

from __future__ import annotations

from seamark.fleet.clusters import Clusters
from seamark.fleet.connectors import Connectors
from seamark.model.connector import Connector, ConnectorType, State
from seamark.model.offset import Offset
from seamark.model.owned import OwnedOffsets


class Offsets:
    """The offsets of every owner. For now they are read through Connect's REST API."""

    def __init__(self, clusters: Clusters, connectors: Connectors) -> None:
        self._clusters = clusters
        self._connectors = connectors

    def of(self, owner: str) -> OwnedOffsets:
        """The offsets of the connector NAME or CLUSTER/NAME, with notes on what REST can't tell.

        Raises:
            UnsupportedError: a worker is older than 3.5, which has no call for it.
        """
        connector = self._connectors.one(owner)
        offsets = self._clusters.client(connector.cluster).read_offsets(connector.name)
        worker_group = self._clusters.settings(connector.cluster).consumer_group_id
        return OwnedOffsets(
            owner=connector.owner,
            connector=connector,
            offsets=offsets,
            notes=build_notes(connector, offsets, worker_group=worker_group),
        )


def build_notes(connector: Connector, offsets: tuple[Offset, ...], *, worker_group: str | None) -> tuple[str, ...]:
    """What the reader must know before trusting these offsets."""
    if connector.type is ConnectorType.SINK:
        notes = _sink_notes(connector, offsets, worker_group=worker_group)
    else:
        notes = _source_notes(connector, offsets)
    if any(offset.offset is None for offset in offsets):
        notes.append("Connect answered null for a partition: another spelling of the key may exist (REST can't tell)")
    return tuple(notes)


def _source_notes(connector: Connector, offsets: tuple[Offset, ...]) -> list[str]:
    notes = []
    if any(len(offset.partition) > 1 for offset in offsets):
        # REST writes keys anew in Java's HashMap order, so byte variants fall together.
        notes.append("partitions with several fields: REST can't tell spellings of the same key apart")
    own_topic = connector.config.get("offsets.storage.topic")
    if own_topic:
        notes.append(f"this connector has its own offsets topic {own_topic}; REST shows it merged with the workers'")
    if connector.type is ConnectorType.SOURCE and not offsets:
        notes.append("no offset is held: the connector reads from its beginning")
    return notes


def _sink_notes(connector: Connector, offsets: tuple[Offset, ...], *, worker_group: str | None) -> list[str]:
    notes = []
    if not offsets:
        notes.append(
            "no offset is committed: the sink starts where consumer.override.auto.offset.reset says (earliest)"
        )
    elif connector.status is not None and connector.status.state is State.STOPPED:
        notes.append(
            "a stopped sink loses its offsets after offsets.retention.minutes of the brokers (7 days by default)"
        )
    if worker_group and "consumer.override.group.id" not in connector.config:
        notes.append(f"the workers put every sink into the group {worker_group}: a change here touches all of them")
    return notes
