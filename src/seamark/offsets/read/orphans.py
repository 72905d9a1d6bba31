"""Offsets whose connector is gone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from seamark.connect.clusters import Clusters
from seamark.core.readings import Reading
from seamark.errors import SeamarkError
from seamark.offsets.exports import Orphan
from seamark.offsets.model import OwnerOffsets, StoredOffset, StoreReading

if TYPE_CHECKING:
    from seamark.offsets.stores.stores import OffsetStores


def read_orphans(clusters: Clusters, stores: OffsetStores) -> Reading[Orphan]:
    """What the workers' stores hold of connectors that no cluster has, the oldest first.

    Clusters that share a store are asked together: a name is an orphan only where none of them has it. Where one of
    them did not answer, nothing is said of that store.
    """
    # By name alone: a connector that was just created has no status yet, and is there.
    answers = clusters.ask(lambda client: client.read_names())
    failures: dict[str, SeamarkError] = dict(answers.failures)
    orphans: list[Orphan] = []
    for names in dict.fromkeys(find_sharing(clusters, name) for name in clusters.names):
        if any(name in answers.failures for name in names):
            continue
        known = {one for name in names for one in answers.results[name]}
        try:
            orphans += _read_store(names[0], known, stores)
        except SeamarkError as error:
            failures[names[0]] = error
    return Reading(tuple(sorted(orphans, key=lambda found: (found.written_ms or 0, found.owner))), failures=failures)


def find_sharing(clusters: Clusters, cluster: str) -> tuple[str, ...]:
    """The clusters that have the same store as this one, and itself."""
    stores = {name: _name_store(clusters, name) for name in clusters.names}
    return tuple(name for name, store in stores.items() if store == stores[cluster])


def _name_store(clusters: Clusters, name: str) -> str:
    settings = clusters.settings(name)
    return str(settings.offsets_file or settings.offsets_topic or name)


def _read_store(cluster: str, known: set[str], stores: OffsetStores) -> list[Orphan]:
    reading = stores.find_workers(cluster).read()
    left: dict[str, list[StoredOffset]] = {}
    for found in reading.offsets:
        if found.key.connector not in known:
            left.setdefault(found.key.connector, []).append(found)
    return [_build(f"{cluster}/{name}", reading.store, found) for name, found in left.items()]


def _build(owner: str, store: str, found: Sequence[StoredOffset]) -> Orphan:
    times = [one.evidence.timestamp_ms for one in found if one.evidence.timestamp_ms is not None]
    return Orphan(owner, store, tuple(one.as_offset() for one in found), max(times, default=None))


def build_orphan_offsets(owner: str, reading: StoreReading) -> OwnerOffsets:
    """The offsets of an owner that is no connector, or none any more."""
    return OwnerOffsets(
        owner=owner,
        connector=None,
        offsets=tuple(found.as_offset() for found in reading.offsets),
        route="store",
        stores=(reading.store,),
        stored=reading.offsets,
        forgotten=reading.forgotten,
        findings=reading.findings,
    )
