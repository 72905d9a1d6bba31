"""Plans that take the offsets of connectors away which are gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from seamark.change.steps.offset_records import WriteRecords
from seamark.change.steps.unused import ProveUnused
from seamark.errors import NotFoundError, RefusedError, UnsupportedError, UsageError
from seamark.fleet.lock_names import build_locks
from seamark.fleet.moving.guards import find_quiet_seconds
from seamark.fleet.moving.left_offsets import build_records
from seamark.fleet.plan_draft import build_plan
from seamark.fleet.planned import Planned
from seamark.fleet.positions.orphans import find_sharing, read_orphans
from seamark.model.connector import ConnectorType
from seamark.model.effect import Effect, FieldChange, Sign
from seamark.model.held_offset import HeldRecord
from seamark.model.offset import spell_identity, spell_offset
from seamark.model.offset_export import Orphan
from seamark.model.reading import Reading
from seamark.offsets.codec import decode_key

if TYPE_CHECKING:
    from seamark.change.actor import Actor
    from seamark.context import Context
    from seamark.fleet.clusters import Clusters
    from seamark.fleet.positions.stores import OffsetStores
    from seamark.fleet.world import FleetWorld

# Each is acknowledged before the next is sent: 5 ms, and 50 on a bad day. A step of so many is over within seconds.
RECORDS_PER_STEP = 100


class OffsetPurges:
    """Plans over what connectors have left in the workers' topics. Nothing is changed here."""

    def __init__(
        self,
        context: Context,
        *,
        clusters: Clusters,
        stores: Callable[[], OffsetStores],
        world: Callable[[], FleetWorld],
        actor: Callable[[], Actor],
    ) -> None:
        self._context = context
        self._clusters = clusters
        self._stores = stores
        self._world = world
        self._actor = actor

    def purge(
        self, owners: Sequence[str] = (), *, everything: bool = False, older_than_ms: int | None = None
    ) -> Planned:
        """Plan that these connectors, or all that are gone, have left nothing. Each key gets a tombstone.

        Where nothing is left behind, or nothing that old, the plan is empty: it may be asked for every night.
        """
        if everything == bool(owners):
            raise UsageError("say whose offsets: some owners, or all that are left behind", hint="OWNER…, or --all")
        found = self._choose(owners, older_than_ms)
        by_cluster: dict[str, list[Orphan]] = {}
        for orphan in found:
            by_cluster.setdefault(orphan.owner.partition("/")[0], []).append(orphan)
        steps = tuple(step for cluster, listed in by_cluster.items() for step in self._build_steps(cluster, listed))
        locks = {lock for orphan in found for lock in self._build_locks(orphan.owner)}
        title = f"take away {len(found)} orphans" if found else "no orphan to take away"
        title = f"take away the offsets of {found[0].owner}" if len(found) == 1 else title
        topics = {step.subject: f"offsets/{step.clusters[0]}" for step in steps}
        plan = build_plan(
            title,
            steps,
            context=self._context.name,
            world=self._world(),
            actor=self._actor(),
            # One lane for each topic: its steps follow each other, and each keeps its own part for the way back.
            lane=lambda step: topics[step.subject],
            locks=locks,
        )
        return Planned(plan, steps=steps, effects=tuple(_build_effect(orphan) for orphan in found))

    def _choose(self, owners: Sequence[str], older_than_ms: int | None) -> list[Orphan]:
        reading = read_orphans(self._clusters, self._stores())
        if reading.failures and not owners:
            raise RefusedError(
                "some clusters did not answer; nothing was changed",
                cause="; ".join(f"{name}: {error.message}" for name, error in reading.failures.items()),
                hint="name the owners that shall be purged, or wait until all clusters answer",
            )
        by_name = {orphan.owner: orphan for orphan in reading.items}
        named = [self._find(owner, by_name, reading) for owner in dict.fromkeys(owners)] or list(reading.items)
        if older_than_ms is not None:
            named = [one for one in named if one.written_ms is not None and one.written_ms < older_than_ms]
        return named

    def _find(self, owner: str, by_name: dict[str, Orphan], reading: Reading[Orphan]) -> Orphan:
        matching = [name for name in by_name if name == owner or ("/" not in owner and name.endswith(f"/{owner}"))]
        if len(matching) == 1:
            return by_name[matching[0]]
        if matching:
            raise UsageError(f"{owner} is left behind in {len(matching)} clusters: {', '.join(matching)}")
        for error in reading.failures.values():
            raise error
        raise NotFoundError(
            f"{owner} has left no offsets behind",
            cause="a connector of that name is there, or none ever wrote offsets",
            hint="seamark offsets orphans lists what is left behind",
        )

    def _build_steps(self, cluster: str, orphans: Sequence[Orphan]) -> Iterator[ProveUnused | WriteRecords]:
        if self._clusters.settings(cluster).offsets_file is not None:
            raise UnsupportedError(f"the offsets of {cluster} are in a standalone worker's file, which is not purged")
        names = [orphan.owner.partition("/")[2] for orphan in orphans]
        reading = self._stores().find_topic(cluster).read(names)
        by_owner: dict[str, list[HeldRecord]] = {name: [] for name in names}
        for record in build_records(reading):
            connector = decode_key(record.key).connector
            # What is a tombstone already stays one.
            if record.value is not None and connector in by_owner:
                by_owner[connector].append(record)
        clusters = find_sharing(self._clusters, cluster)
        yield ProveUnused(clusters, tuple(names), find_quiet_seconds(self._context))
        for part in _cut(by_owner):
            emptied = tuple(HeldRecord(one.topic, one.partition, one.key) for _, one in part)
            yield WriteRecords(clusters, tuple(dict.fromkeys(name for name, _ in part)), emptied)

    def _build_locks(self, owner: str) -> tuple[str, ...]:
        cluster, _, name = owner.partition("/")
        settings = self._clusters.settings(cluster)
        return build_locks(name, [{}], kind=ConnectorType.SOURCE, settings=settings)


def _cut(by_owner: dict[str, list[HeldRecord]]) -> Iterator[list[tuple[str, HeldRecord]]]:
    """Parts of at most so many records. An owner with more is in several."""
    every = [(name, record) for name, records in by_owner.items() for record in records]
    for start in range(0, len(every), RECORDS_PER_STEP):
        yield every[start : start + RECORDS_PER_STEP]


def _build_effect(orphan: Orphan) -> Effect:
    fields = tuple(
        FieldChange(spell_identity(found.partition), spell_offset(found.offset), None) for found in orphan.offsets
    )
    return Effect(Sign.DELETE, f"offsets/{orphan.owner}", "a new connector of this name finds nothing there", fields)
