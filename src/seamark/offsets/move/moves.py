"""Moving the offsets of any owner: each verb gives a plan and changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from seamark.changes.planned import Planned
from seamark.connect.connector import Connector
from seamark.core.fanout import fan_out
from seamark.core.offset import Offset, spell_identity
from seamark.core.refs import ConnectorType, is_group_owner, parse_owner, read_group_name
from seamark.errors import NotFoundError, RefusedError, SeamarkError, UnsupportedError, UsageError
from seamark.offsets.move.left_source import build_left_notes, read_left
from seamark.offsets.move.made_anew import SavedTopics
from seamark.offsets.move.sink_targets import SinkTargets, find_commits, is_chosen, parse_spots
from seamark.offsets.move.targets import Move, OwnerFile, SourceTargets, find_named, parse_time
from seamark.offsets.port import OFFSETS
from seamark.offsets.read.diff import read_saved
from seamark.offsets.semantics.arithmetic import rewrite_partition
from seamark.offsets.semantics.plugin_semantics import read_meaning
from seamark.offsets.write.plans import OffsetPlans, merge
from seamark.offsets.write.preview_totals import DEFAULT_TOLERANCE, Tolerance
from seamark.offsets.write.shared_groups import SharedGroups, read_shared

if TYPE_CHECKING:
    from seamark.connect.clusters import Clusters
    from seamark.connectors.service import Connectors
    from seamark.groups.service import Groups
    from seamark.offsets.port import PlanningWorld
    from seamark.offsets.restore.plans import Moments
    from seamark.offsets.stores.stores import OffsetStores


@dataclass(frozen=True, slots=True)
class Care:
    """How carefully a change is made: whether a silent worker is accepted, how much more than planned may be moved.

    `wait_seconds` is how long the first new position is waited for, where not as long as the workers need for one.
    """

    accepts_zombies: bool = False
    tolerance: Tolerance = DEFAULT_TOLERANCE
    wait_seconds: float | None = None


class RelocationPlans(Protocol):
    """Plans another offsets topic for a source."""

    def plan(
        self,
        connector: Connector,
        topic: str | None,
        *,
        accepts_zombies: bool = False,
        wait_seconds: float | None = None,
    ) -> Planned:
        """Plan that a source stores its offsets in that topic; None is the topic of its workers."""
        ...


class OffsetMoves:
    """The verbs that move offsets. `fleet.offsets` has them by the same names."""

    def __init__(
        self,
        *,
        clusters: Clusters,
        connectors: Connectors,
        stores: Callable[[], OffsetStores],
        world: Callable[[], PlanningWorld],
        plans: Callable[[], OffsetPlans],
        groups: Callable[[], Groups],
        relocations: Callable[[], RelocationPlans],
        moments: Callable[[], Moments],
    ) -> None:
        self._clusters = clusters
        self._connectors = connectors
        self._stores = stores
        self._world = world
        self._plans = plans
        self._groups = groups
        self._relocations = relocations
        self._moments = moments

    def move(self, owner: str, move: Move, *, partitions: Sequence[str] = (), care: Care | None = None) -> Planned:
        """Plan another place for an owner."""
        if move.as_of is not None:
            from seamark.offsets.restore.plans import BackTo  # noqa: PLC0415

            return self._moments().plan([owner], BackTo(parse_time(move.as_of)), partitions=partitions, care=care)
        if is_group_owner(owner):
            return self._move_group(owner, move, partitions)
        connector = self._connectors.one(owner)
        title = f"move {connector.owner} {move.words}"
        if connector.type is not ConnectorType.SINK:
            offsets = self._open_source(connector).move(move, partitions)
            return self.write(connector, offsets, title=title, care=care)
        sink = self._open_sink(connector)
        offsets = sink.move(move, partitions)
        saved = self._open_saved(sink.topics)
        return self.write(connector, offsets, title=title, care=care, notes=sink.notes, saved=saved)

    def forget(self, owner: str, *, partitions: Sequence[str] = (), care: Care | None = None) -> Planned:
        """Plan that an owner forgets its offsets, or those of some partitions."""
        if is_group_owner(owner):
            name = read_group_name(owner)
            return self._groups().forget(name, topics=partitions) if partitions else self._groups().delete(name)
        connector = self._connectors.one(owner)
        if connector.type is ConnectorType.SINK:
            offsets = self._open_sink(connector).forget(partitions)
        else:
            offsets = self._open_source(connector).forget(partitions)
        return self.write(connector, offsets, title=f"forget offsets of {connector.owner}", care=care)

    def restore(self, path: Path, *, owners: Sequence[str] = (), care: Care | None = None) -> Planned:
        """Plan that owners stand where a file says: an export, or the bare JSON of `connect-offsets`."""
        side, topics = read_saved(path)
        named = [find_named(side, owner, path=path) for owner in owners]
        chosen = {owner: side[owner] for owner in (named or side) if side[owner]}
        if not chosen:
            raise UsageError(f"{path} holds no offsets")
        # A connector's name is what stands after its cluster's.
        self._world().expect_connectors(parse_owner(owner).name for owner in chosen)
        # Read once for all, where a sink is among them.
        shared = None if all(is_group_owner(owner) for owner in chosen) else read_shared(self._clusters)
        restore = partial(self._restore_one, care=care, shared=shared, saved=self._open_saved(topics))
        answers = fan_out({owner: partial(restore, owner, held) for owner, held in chosen.items()})
        for error in answers.failures.values():
            if len(chosen) == 1:
                raise error
            raise RefusedError(
                f"{len(answers.failures)} of {len(chosen)} owners in {path} can't be given their offsets; "
                "nothing was changed",
                cause="; ".join(_say_failure(owner, error) for owner, error in answers.failures.items()),
                hint="name those that shall have them: seamark offsets import FILE OWNER…",
            )
        return merge(f"import offsets from {path.name}", [answers.results[owner] for owner in chosen])

    def copy(self, source: str, target: str, *, care: Care | None = None) -> Planned:
        """Plan that one owner stands where another stands, or stood. Keys are rewritten as the other one names them."""
        offsets, origin, left = self._read_source(source)
        title = f"copy offsets of {source} to {target}"
        if is_group_owner(target):
            planned = self._groups().place(read_group_name(target), find_commits(source, offsets))
            return replace(planned, plan=replace(planned.plan, title=title))
        connector = self._connectors.one(target)
        notes: Sequence[str] = left
        if connector.type is ConnectorType.SINK:
            find_commits(source, offsets)
            sink = self._open_sink(connector)
            offsets, notes = sink.clamp(offsets), sink.notes
        else:
            if not left:
                self._refuse_family(source, origin, connector)
            offsets = self._rewrite(source, connector, offsets)
        return self.write(connector, offsets, title=title, care=care, notes=notes)

    def relocate(self, owner: str, topic: str | None, *, care: Care | None = None) -> Planned:
        """Plan that a source keeps its offsets in a topic of its own; None is the one of its workers."""
        if is_group_owner(owner):
            raise UnsupportedError(f"{owner} has no offsets topic", cause="the group coordinator keeps its offsets")
        care = care or Care()
        return self._relocations().plan(
            self._connectors.one(owner),
            topic,
            accepts_zombies=care.accepts_zombies,
            wait_seconds=care.wait_seconds,
        )

    def _restore_one(
        self,
        owner: str,
        offsets: Sequence[Offset],
        *,
        care: Care | None,
        shared: SharedGroups | None,
        saved: SavedTopics,
    ) -> Planned:
        if is_group_owner(owner):
            return self._place_group(owner, offsets, saved)
        connector = self._connectors.one(owner)
        notes: list[str] = []
        if connector.type is ConnectorType.SINK:
            sink = self._open_sink(connector)
            offsets, notes = sink.clamp(offsets), sink.notes
        title = f"import offsets of {owner}"
        return self.write(connector, offsets, title=title, care=care, notes=notes, shared=shared, saved=saved)

    def _place_group(
        self, owner: str, offsets: Sequence[Offset], saved: SavedTopics, partitions: Sequence[str] = ()
    ) -> Planned:
        chosen = [parse_spots(name) for name in partitions]
        held = [one for one in offsets if not chosen or is_chosen(one.partition, chosen)]
        notes = saved.refuse_other(owner, held)
        planned = self._groups().place(read_group_name(owner), find_commits(owner, offsets), topics=partitions)
        return replace(planned, plan=replace(planned.plan, notes=(*planned.plan.notes, *notes)))

    def _open_saved(self, ids: Mapping[str, str] | None) -> SavedTopics:
        return SavedTopics(ids, kafka=self._world().kafka if self._stores().has_brokers else None)

    def _move_group(self, owner: str, move: Move, partitions: Sequence[str]) -> Planned:
        name = read_group_name(owner)
        if isinstance(move.to, Mapping):
            raise UsageError("a group is moved to earliest, latest, an offset or a time")
        if move.source is not None and (saved := _read_group_file(move.source, owner)) is not None:
            return self._place_group(owner, saved.offsets, self._open_saved(saved.topics), partitions)
        return self._groups().move(
            name, to=move.to, back=move.back, shift=move.shift, source=move.source, topics=partitions
        )

    def _read_source(self, source: str) -> tuple[tuple[Offset, ...], Connector | None, tuple[str, ...]]:
        """What an owner holds, the connector that it is, None for a group; and what to say of one that is gone."""
        connector = None
        if is_group_owner(source):
            reading = self._stores().find_group(read_group_name(source)).read()
            offsets = tuple(found.as_offset() for found in reading.offsets)
        else:
            try:
                connector = self._connectors.one(source)
            except NotFoundError as missing:
                return self._read_left(source, missing), None, build_left_notes(source)
            held = self._world().use(OFFSETS)(connector.cluster, connector.name).read_all()
            offsets = tuple(Offset(found.partition, found.offset) for found in held if found.offset is not None)
        if not offsets:
            raise NotFoundError(f"{source} holds no offsets", hint="seamark offsets show OWNER shows what one holds")
        return offsets, connector, ()

    def _read_left(self, source: str, missing: NotFoundError) -> tuple[Offset, ...]:
        return read_left(source, missing, connectors=self._connectors, clusters=self._clusters, stores=self._stores())

    def _refuse_family(self, source: str, origin: Connector | None, target: Connector) -> None:
        theirs = None if origin is None else read_meaning(origin, self._clusters.client(origin.cluster))
        ours = read_meaning(target, self._clusters.client(target.cluster))
        if theirs is None or theirs.family != ours.family:
            raise RefusedError(
                f"{target.owner} can't read the offsets of {source}; nothing was changed",
                cause=f"one is a {'consumer group' if theirs is None else theirs.family}, the other a {ours.family}",
            )

    def _rewrite(self, source: str, target: Connector, offsets: Sequence[Offset]) -> tuple[Offset, ...]:
        ours = read_meaning(target, self._clusters.client(target.cluster))
        rewritten = tuple(Offset(rewrite_partition(ours, target.config, one.partition), one.offset) for one in offsets)
        if len({spell_identity(one.partition) for one in rewritten}) < len(rewritten):
            raise RefusedError(
                f"several partitions of {source} would be the same one of {target.owner}; nothing was changed",
                hint="seamark offsets export, then import what you choose",
            )
        return rewritten

    def write(
        self,
        connector: Connector,
        offsets: Sequence[Offset],
        *,
        title: str,
        care: Care | None,
        notes: Sequence[str] = (),
        shared: SharedGroups | None = None,
        saved: SavedTopics | None = None,
    ) -> Planned:
        """Plan these offsets for a connector, with all the care that is asked for; `saved` is where they come from."""
        care = care or Care()
        said: tuple[str, ...] = ()
        doubts = [] if saved is None else saved.refuse_other(connector.owner, offsets, connector)
        if connector.type is ConnectorType.SINK:
            said = (shared or read_shared(self._clusters)).refuse_foreign(connector, offsets)
        return self._plans().write(
            connector,
            offsets,
            title=title,
            accepts_zombies=care.accepts_zombies,
            tolerance=care.tolerance,
            wait_seconds=care.wait_seconds,
            notes=(*notes, *doubts, *said),
        )

    def _open_sink(self, connector: Connector) -> SinkTargets:
        world = self._world()
        held = world.use(OFFSETS)(connector.cluster, connector.name).read_all()
        kafka = self._stores().find_brokers(connector) if self._stores().has_brokers else None
        return SinkTargets(connector.owner, held=held, kafka=kafka, now=world.clock.now())

    def _open_source(self, connector: Connector) -> SourceTargets:
        meaning = read_meaning(connector, self._clusters.client(connector.cluster))
        held = self._world().use(OFFSETS)(connector.cluster, connector.name).read_all()
        return SourceTargets(connector.owner, meaning=meaning, held=held)


def _say_failure(owner: str, error: SeamarkError) -> str:
    return f"{owner}: {error.message} ({error.cause})" if error.cause else f"{owner}: {error.message}"


def _read_group_file(path: Path, owner: str) -> OwnerFile | None:
    """What an export says of a group; None for the lines of kafka-consumer-groups."""
    try:
        with path.expanduser().open("rb") as file:
            is_json = file.read(1024).lstrip().startswith(b"{")
    except OSError:
        return None
    if not is_json:
        return None
    side, topics = read_saved(path)
    if owner not in side:
        raise NotFoundError(f"{path} says nothing of {owner}", cause=f"it has {', '.join(sorted(side)[:10])}")
    return OwnerFile(side[owner], topics)
