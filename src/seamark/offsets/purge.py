"""Plan the deletion of orphaned offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seamark.changes.plan import PlannedChange
from seamark.core.readings import Reading
from seamark.core.refs import parse_owner
from seamark.errors import NotFoundError, RefusedError, UnsupportedError, UsageError
from seamark.kafka.model import HeldRecord
from seamark.offsets.codec.codec import decode_key
from seamark.offsets.exports import Orphan
from seamark.offsets.read.connector import build_records
from seamark.offsets.read.orphans import read_orphans
from seamark.offsets.write.records import PurgeOffsets

if TYPE_CHECKING:
    from seamark.offsets.port import OffsetDependencies


@dataclass(frozen=True, slots=True)
class OffsetPurges:
    """Plans for orphaned offsets in the workers' topics. Nothing is changed here."""

    deps: OffsetDependencies

    def purge(
        self, owners: Sequence[str] = (), *, everything: bool = False, older_than_ms: int | None = None
    ) -> PlannedChange:
        """Plan to delete the offsets of these connectors, or of all that no longer exist. Each key gets a tombstone.

        If there are no orphaned offsets, or none that old, the plan is empty, so that it can run from a scheduler.
        """
        if everything == bool(owners):
            raise UsageError("no owner given", hint="pass OWNER…, or --all")
        found = self._choose(owners, older_than_ms)
        by_cluster: dict[str, list[Orphan]] = {}
        for orphan in found:
            by_cluster.setdefault(parse_owner(orphan.owner).cluster, []).append(orphan)
        title = f"delete {len(found)} orphaned offsets" if found else "no orphaned offsets to delete"
        title = f"delete the orphaned offsets of {found[0].owner}" if len(found) == 1 else title
        actions = [self._build_action(cluster, listed) for cluster, listed in by_cluster.items()]
        reads = self.deps.planner.build_reads(self.deps.world)
        return self.deps.planner.plan(title, actions, reads=reads)

    def _choose(self, owners: Sequence[str], older_than_ms: int | None) -> list[Orphan]:
        reading = read_orphans(self.deps.clusters, self.deps.world.stores)
        if reading.failures and not owners:
            raise RefusedError(
                "some Connect clusters did not respond; no changes were made",
                cause="; ".join(f"{name}: {error.message}" for name, error in reading.failures.items()),
                hint="pass the owners to purge, or retry when all Connect clusters respond",
            )
        by_name = {orphan.owner: orphan for orphan in reading.items}
        named = [self._find(owner, by_name, reading) for owner in dict.fromkeys(owners)] or list(reading.items)
        if older_than_ms is not None:
            named = [one for one in named if one.written_ms is not None and one.written_ms < older_than_ms]
        return named

    def _find(self, owner: str, by_name: dict[str, Orphan], reading: Reading[Orphan]) -> Orphan:
        matching = [name for name in by_name if owner in (name, parse_owner(name).name)]
        if len(matching) == 1:
            return by_name[matching[0]]
        if matching:
            raise UsageError(f"{owner} has orphaned offsets in {len(matching)} Connect clusters: {', '.join(matching)}")
        for error in reading.failures.values():
            raise error
        raise NotFoundError(
            f"{owner} has no orphaned offsets",
            cause="a connector of that name exists, or it never stored offsets",
            hint="list orphaned offsets with seamark offsets orphans",
        )

    def _build_action(self, cluster: str, orphans: Sequence[Orphan]) -> PurgeOffsets:
        if self.deps.clusters.settings(cluster).offsets_file is not None:
            raise UnsupportedError(
                f"the offsets of {cluster} are in a standalone worker's file, which seamark doesn't purge"
            )
        names = [parse_owner(orphan.owner).name for orphan in orphans]
        reading = self.deps.world.stores.find_topic(cluster).read(names)
        by_owner: dict[str, list[HeldRecord]] = {name: [] for name in names}
        for record in build_records(reading):
            connector = decode_key(record.key).connector
            # Records that are already tombstones are skipped.
            if record.value is not None and connector in by_owner:
                by_owner[connector].append(HeldRecord(record.topic, record.partition, record.key))
        return PurgeOffsets(cluster, tuple(names), tuple(one for found in by_owner.values() for one in found))
