"""What a connector that is gone has left, for another one that takes it over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.core.offset import Offset, spell_identity
from seamark.errors import NotFoundError, RefusedError, UsageError

if TYPE_CHECKING:
    from seamark.connect.clusters import Clusters
    from seamark.connectors.service import Connectors
    from seamark.offsets.stored_offset import StoreReading
    from seamark.offsets.stores.stores import OffsetStores


def read_left(
    owner: str, missing: NotFoundError, *, connectors: Connectors, clusters: Clusters, stores: OffsetStores
) -> tuple[Offset, ...]:
    """The offsets of a connector that no cluster has any more, from the store of its workers.

    Raises:
        NotFoundError: it has left nothing; `missing` says that it is not there.
        UsageError: a name without a cluster has left offsets in several stores.
        RefusedError: several records leave it open where it stood.
    """
    cluster, name = connectors.split_owner(owner)
    # Clusters may share a topic: it is read once.
    found: dict[str, StoreReading] = {}
    for where in (cluster,) if cluster is not None else clusters.names:
        reading = stores.find_workers(where).read([name])
        if reading.offsets:
            found.setdefault(reading.store, reading)
    if not found:
        raise missing
    if len(found) > 1:
        raise UsageError(f"{owner} has left offsets in {', '.join(found)}", hint="say whose: CLUSTER/NAME")
    (reading,) = found.values()
    if unsure := [one for one in reading.offsets if not one.is_certain]:
        raise RefusedError(
            f"nobody can tell where {owner} stood; nothing was changed",
            cause=f"several records speak of {', '.join(spell_identity(one.key.partition) for one in unsure)}",
            hint=f"seamark offsets show {owner} --raw shows them; then seamark offsets move OWNER --to '{{…}}'",
        )
    return tuple(one.as_offset() for one in reading.offsets)


def build_left_notes(owner: str) -> tuple[str, ...]:
    """What the reader of a plan must know of it."""
    return (
        f"{owner} is gone: its offsets were left behind, and nobody can tell of which class it was",
        f"what it has left stays there: seamark offsets purge {owner} takes it away",
    )
