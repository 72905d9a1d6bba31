"""Find offsets whose connector no longer exists."""

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
    """Read from the workers' stores the offsets of connectors that no Connect cluster has, oldest first.

    Connect clusters that share a store are checked together: a name is an orphan only if none of them has it. If one of
    them does not respond, no orphans are reported for that store.
    """
    # Compare names only: a connector that was just created has no status yet, but exists.
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
    """Return the Connect clusters that use the same store as this one, including itself."""
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
    """Build the offsets of an owner that is not, or no longer, a connector."""
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
