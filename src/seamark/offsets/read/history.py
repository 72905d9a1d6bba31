"""Read the previous offsets of an owner that its topic still contains."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from seamark.core.offsets import OffsetMap, spell_identity
from seamark.core.refs import is_group_owner, read_group_name
from seamark.errors import NotFoundError, UnsupportedError
from seamark.offsets.codec.verdicts import DecodedKey
from seamark.offsets.exports import HistoryEntry
from seamark.offsets.model import OffsetWrite, StoredRecord
from seamark.offsets.stores.topic import TopicStore

if TYPE_CHECKING:
    from seamark.connect.clusters import Clusters
    from seamark.connectors.service import Connectors
    from seamark.offsets.stores.stores import OffsetStores, Store


def read_history(
    owner: str, *, connectors: Connectors, clusters: Clusters, stores: OffsetStores
) -> tuple[HistoryEntry, ...]:
    """Read every write that is still in the topic, oldest first."""
    name, store = _find_store(owner, connectors=connectors, clusters=clusters, stores=stores)
    if not isinstance(store, TopicStore):
        raise UnsupportedError(
            f"no history of {owner}",
            cause=f"its offsets are in {store.name}, which keeps only the newest",
            hint="run seamark offsets export regularly to keep a history",
        )
    return build_history(store.read_history([name]))


def build_history(found: Iterable[tuple[DecodedKey, StoredRecord]]) -> tuple[HistoryEntry, ...]:
    """Build entries in the order of record times; records of the same time are in the order of the topic."""
    entries = [
        HistoryEntry(key.connector or "", key.key.partition if key.key is not None else None, evidence.offset, evidence)
        for key, evidence in found
    ]
    return tuple(sorted(entries, key=_rank))


def read_writes(store: Store, name: str, partitions: Sequence[OffsetMap]) -> tuple[tuple[OffsetWrite, ...], ...]:
    """Read each partition's remaining writes for a connector, oldest first. Groups keep only the newest."""
    found: dict[str, list[OffsetWrite]] = {spell_identity(partition): [] for partition in partitions}
    if isinstance(store, TopicStore):
        for entry in build_history(store.read_history([name])):
            writes = None if entry.partition is None else found.get(spell_identity(entry.partition))
            if writes is not None:
                writes.append(OffsetWrite(entry.offset, entry.evidence.timestamp_ms))
    else:
        for stored in store.read([name]).offsets:
            if (writes := found.get(stored.key.identity)) is not None:
                writes.append(OffsetWrite(stored.offset, stored.evidence.timestamp_ms))
    return tuple(tuple(writes) for writes in found.values())


def _rank(entry: HistoryEntry) -> tuple[int, int, int]:
    found = entry.evidence
    return found.timestamp_ms or -1, found.partition or 0, found.record_offset or 0


def _find_store(owner: str, *, connectors: Connectors, clusters: Clusters, stores: OffsetStores) -> tuple[str, Store]:
    if is_group_owner(owner):
        return owner, stores.find_group(read_group_name(owner))
    try:
        connector = connectors.get(owner)
    except NotFoundError:
        # A connector that no longer exists may still have a history. With several Connect clusters, the owner must name
        # one.
        cluster, name = connectors.split_owner(owner)
        if cluster is None and len(clusters.names) == 1:
            (cluster,) = clusters.names
        if cluster is None:
            raise
        return name, stores.find_workers(cluster)
    return connector.name, stores.find(connector).first
