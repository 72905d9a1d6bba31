"""Plan moves of offsets for any kind of owner: each method returns a plan and changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from seamark.changes.plan import PlannedChange
from seamark.connect.model import Connector
from seamark.core.offsets import Offset, spell_identity
from seamark.core.readings import fan_out
from seamark.core.refs import ConnectorType, is_group_owner, parse_owner, read_group_name
from seamark.errors import NotFoundError, RefusedError, UnsupportedError, UsageError
from seamark.offsets.model import DEFAULT_SAFETY, SafetyOptions
from seamark.offsets.move.sources import ExportedTopicIds, build_left_notes, read_orphaned_offsets
from seamark.offsets.move.targets import (
    Move,
    OwnerFile,
    SinkTargets,
    SourceTargets,
    find_named,
)
from seamark.offsets.port import SNAPSHOTS
from seamark.offsets.read.export import read_saved
from seamark.offsets.semantics.arithmetic import rewrite_partition
from seamark.offsets.semantics.sinks import find_commits, is_chosen, parse_spots
from seamark.offsets.write.plans import merge, plan_write
from seamark.offsets.write.rights import SharedGroups, read_shared

if TYPE_CHECKING:
    from seamark.offsets.port import OffsetDependencies


@dataclass(frozen=True, slots=True)
class OffsetMoves:
    """The methods that move offsets, for one plan. `fleet.offsets` has methods of the same names."""

    deps: OffsetDependencies

    def move(
        self,
        owner: str,
        move: Move,
        *,
        partitions: Sequence[str] = (),
        topics: Sequence[str] = (),
        safety: SafetyOptions = DEFAULT_SAFETY,
    ) -> PlannedChange:
        """Plan new offsets for an owner."""
        if is_group_owner(owner):
            return self._move_group(owner, move, choose_partitions(owner, partitions, topics))
        if isinstance(move.source, str):
            raise UsageError(
                "--from-group is only for groups", hint=f"use seamark offsets copy group/{move.source} {owner}"
            )
        connector = self.deps.connectors.get(owner)
        partitions = choose_partitions(owner, partitions, topics, kind=connector.type)
        title = f"move {connector.owner} {move.words}"
        if connector.type is not ConnectorType.SINK:
            offsets = self._open_source(connector).move(move, partitions)
            return plan_write(self.deps, connector, offsets, title=title, safety=safety)
        sink = self._open_sink(connector)
        offsets = sink.move(move, partitions)
        notes = (*sink.notes, *self._open_saved(sink.topics).refuse_other(connector.owner, offsets, connector))
        return plan_write(self.deps, connector, offsets, title=title, safety=safety, notes=notes)

    def forget(
        self,
        owner: str,
        *,
        partitions: Sequence[str] = (),
        topics: Sequence[str] = (),
        safety: SafetyOptions = DEFAULT_SAFETY,
    ) -> PlannedChange:
        """Plan to delete the offsets of an owner, or those of some partitions."""
        if is_group_owner(owner):
            name = read_group_name(owner)
            chosen = choose_partitions(owner, partitions, topics)
            return (
                self.deps.open_groups().forget(name, topics=chosen) if chosen else self.deps.open_groups().delete(name)
            )
        connector = self.deps.connectors.get(owner)
        partitions = choose_partitions(owner, partitions, topics, kind=connector.type)
        if connector.type is ConnectorType.SINK:
            offsets = self._open_sink(connector).forget(partitions)
        else:
            offsets = self._open_source(connector).forget(partitions)
        return plan_write(self.deps, connector, offsets, title=f"reset offsets of {connector.owner}", safety=safety)

    def restore(
        self, path: Path, *, owners: Sequence[str] = (), safety: SafetyOptions = DEFAULT_SAFETY
    ) -> PlannedChange:
        """Plan to set owners to the offsets in a file: an export, or the bare JSON of `connect-offsets`."""
        side, topics = read_saved(path)
        named = [find_named(side, owner, path=path) for owner in owners]
        chosen = {owner: side[owner] for owner in (named or side) if side[owner]}
        if not chosen:
            raise UsageError(f"{path} contains no offsets")
        # A connector's name is the part after the name of its Connect cluster.
        self.deps.world.use(SNAPSHOTS).expect(parse_owner(owner).name for owner in chosen)
        # Read once for all owners, if a sink is among them.
        shared = None if all(is_group_owner(owner) for owner in chosen) else read_shared(self.deps.clusters)
        restore = partial(self._restore_one, safety=safety, shared=shared, saved=self._open_saved(topics))
        answers = fan_out({owner: partial(restore, owner, held) for owner, held in chosen.items()})
        for error in answers.failures.values():
            if len(chosen) == 1:
                raise error
            raise RefusedError(
                f"{len(answers.failures)} of {len(chosen)} owners in {path} can't be imported; no changes were made",
                cause="; ".join(
                    f"{owner}: {error.message} ({error.cause})" if error.cause else f"{owner}: {error.message}"
                    for owner, error in answers.failures.items()
                ),
                hint="pass the owners to import: seamark offsets import FILE OWNER…",
            )
        return merge(f"import offsets from {path.name}", [answers.results[owner] for owner in chosen])

    def copy(self, source: str, target: str, *, safety: SafetyOptions = DEFAULT_SAFETY) -> PlannedChange:
        """Plan to set one owner to the offsets of another, existing or deleted. Keys get the target's names."""
        offsets, origin, left = self._read_source(source)
        title = f"copy offsets of {source} to {target}"
        if is_group_owner(target):
            planned = self.deps.open_groups().place(read_group_name(target), find_commits(source, offsets))
            return replace(planned, plan=replace(planned.plan, title=title))
        connector = self.deps.connectors.get(target)
        notes: Sequence[str] = left
        if connector.type is ConnectorType.SINK:
            find_commits(source, offsets)
            sink = self._open_sink(connector)
            offsets, notes = sink.clamp(offsets), sink.notes
        else:
            if not left:
                self._refuse_family(source, origin, connector)
            offsets = self._rewrite(source, connector, offsets)
        return plan_write(self.deps, connector, offsets, title=title, safety=safety, notes=notes)

    def relocate(self, owner: str, topic: str | None, *, safety: SafetyOptions = DEFAULT_SAFETY) -> PlannedChange:
        """Plan to store the offsets of a source in its own topic; None stands for the topic of its workers."""
        if is_group_owner(owner):
            raise UnsupportedError(
                f"{owner} has no offsets topic", cause="its offsets are committed offsets of a consumer group"
            )
        return self.deps.open_relocations(self.deps).plan(self.deps.connectors.get(owner), topic, safety=safety)

    def _restore_one(
        self,
        owner: str,
        offsets: Sequence[Offset],
        *,
        safety: SafetyOptions,
        shared: SharedGroups | None,
        saved: ExportedTopicIds,
    ) -> PlannedChange:
        if is_group_owner(owner):
            return self._place_group(owner, offsets, saved)
        connector = self.deps.connectors.get(owner)
        notes: list[str] = []
        if connector.type is ConnectorType.SINK:
            sink = self._open_sink(connector)
            offsets, notes = sink.clamp(offsets), list(sink.notes)
        notes += saved.refuse_other(connector.owner, offsets, connector)
        title = f"import offsets of {owner}"
        return plan_write(self.deps, connector, offsets, title=title, safety=safety, notes=notes, shared=shared)

    def _place_group(
        self, owner: str, offsets: Sequence[Offset], saved: ExportedTopicIds, partitions: Sequence[str] = ()
    ) -> PlannedChange:
        chosen = [parse_spots(name) for name in partitions]
        held = [one for one in offsets if not chosen or is_chosen(one.partition, chosen)]
        notes = saved.refuse_other(owner, held)
        planned = self.deps.open_groups().place(read_group_name(owner), find_commits(owner, offsets), topics=partitions)
        return replace(planned, plan=replace(planned.plan, notes=(*planned.plan.notes, *notes)))

    def _open_saved(self, ids: Mapping[str, str] | None) -> ExportedTopicIds:
        return ExportedTopicIds(ids, kafka=self.deps.world.kafka if self.deps.world.stores.has_brokers else None)

    def _move_group(self, owner: str, move: Move, partitions: Sequence[str]) -> PlannedChange:
        name = read_group_name(owner)
        if isinstance(move.to, Mapping):
            raise UsageError("invalid value for --to: expected earliest, latest, current, an offset or a time")
        if isinstance(move.source, Path) and (saved := _read_group_file(move.source, owner)) is not None:
            return self._place_group(owner, saved.offsets, self._open_saved(saved.topics), partitions)
        return self.deps.open_groups().move(
            name, to=move.to, back=move.back, shift=move.shift, source=move.source, topics=partitions
        )

    def _read_source(self, source: str) -> tuple[tuple[Offset, ...], Connector | None, tuple[str, ...]]:
        """Return an owner's offsets, its connector (None for a group), and notes if it no longer exists."""
        connector = None
        if is_group_owner(source):
            reading = self.deps.world.stores.find_group(read_group_name(source)).read()
            offsets = tuple(found.as_offset() for found in reading.offsets)
        else:
            try:
                connector = self.deps.connectors.get(source)
            except NotFoundError as missing:
                deps = self.deps
                left = read_orphaned_offsets(
                    source, missing, connectors=deps.connectors, clusters=deps.clusters, stores=deps.world.stores
                )
                return left, None, build_left_notes(source)
            held = self.deps.open_snapshot(connector).read_all()
            offsets = tuple(Offset(found.partition, found.offset) for found in held if found.offset is not None)
        if not offsets:
            raise NotFoundError(f"{source} has no offsets", hint="check with seamark offsets show OWNER")
        return offsets, connector, ()

    def _refuse_family(self, source: str, origin: Connector | None, target: Connector) -> None:
        theirs = None if origin is None else self.deps.open_snapshot(origin).meaning
        ours = self.deps.open_snapshot(target).meaning
        if theirs is None or theirs.family != ours.family:
            raise RefusedError(
                f"{target.owner} can't use the offsets of {source}; no changes were made",
                cause=f"one is a {'consumer group' if theirs is None else theirs.family}, the other a {ours.family}",
            )

    def _rewrite(self, source: str, target: Connector, offsets: Sequence[Offset]) -> tuple[Offset, ...]:
        ours = self.deps.open_snapshot(target).meaning
        rewritten = tuple(Offset(rewrite_partition(ours, target.config, one.partition), one.offset) for one in offsets)
        if len({spell_identity(one.partition) for one in rewritten}) < len(rewritten):
            raise RefusedError(
                f"several partitions of {source} map to the same one of {target.owner}; no changes were made",
                hint="run seamark offsets export, edit the file, then run seamark offsets import",
            )
        return rewritten

    def _open_sink(self, connector: Connector) -> SinkTargets:
        held = self.deps.open_snapshot(connector).read_all()
        kafka = self.deps.world.stores.find_brokers(connector) if self.deps.world.stores.has_brokers else None
        return SinkTargets(connector.owner, held=held, kafka=kafka, now=self.deps.world.clock.now())

    def _open_source(self, connector: Connector) -> SourceTargets:
        snapshot = self.deps.open_snapshot(connector)
        return SourceTargets(
            connector.owner, meaning=snapshot.meaning, held=snapshot.read_all(), now=self.deps.world.clock.now()
        )


def choose_partitions(
    owner: str, partitions: Sequence[str], topics: Sequence[str], *, kind: ConnectorType = ConnectorType.SINK
) -> tuple[str, ...]:
    """Return what `--partition` and `--topic` name: source partitions of a source, topic partitions of all others.

    Raises:
        UsageError: the owner has no partitions of that kind.
    """
    if kind is ConnectorType.SOURCE and topics:
        raise UsageError(f"--topic does not apply to source {owner}", hint="use --partition")
    # A map is how Connect itself writes a topic partition of a sink.
    if kind is not ConnectorType.SOURCE and (names := [one for one in partitions if not one.startswith("{")]):
        raise UsageError(f"--partition does not apply to {owner}", hint=f"use --topic {names[0]}")
    return (*partitions, *topics)


def _read_group_file(path: Path, owner: str) -> OwnerFile | None:
    """Read the offsets of a group from an export; None for the output of kafka-consumer-groups."""
    try:
        with path.expanduser().open("rb") as file:
            is_json = file.read(1024).lstrip().startswith(b"{")
    except OSError:
        return None
    if not is_json:
        return None
    side, topics = read_saved(path)
    if owner not in side:
        raise NotFoundError(f"{path} does not contain {owner}", cause=f"it contains {', '.join(sorted(side)[:10])}")
    return OwnerFile(side[owner], topics)
