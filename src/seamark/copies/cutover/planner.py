"""The plan of a cutover: which connectors stop, what each consumer reprocesses, which configs are switched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seamark.changes.plan import PlannedChange
from seamark.connect.config import switch_sink, switch_source
from seamark.connectors.policy import check_config_writes
from seamark.copies.cutover.action import CutOver, CutoverGroup, RecreatedTopic
from seamark.copies.cutover.undo import CutoverConnector
from seamark.copies.plan.endpoints import find_topic, read_stable_bounds
from seamark.copies.plan.plan import build_back_name, parse_copy_name
from seamark.copies.plan.users import (
    CopyReader,
    CopyUsers,
    ReaderKind,
    leave_mirrors_out,
    read_copy_users,
    read_landings,
    say_file,
)
from seamark.core.refs import CONNECTOR, parse_owner, parse_subject
from seamark.errors import NotFoundError, RefusedError, UsageError
from seamark.offsets.write.guards import require_run_state
from seamark.offsets.write.rights import build_rights_notes
from seamark.tables.registry import list_consumers
from seamark.topics.users import Use

if TYPE_CHECKING:
    from seamark.changes.environment import Environment
    from seamark.connect.clusters import Clusters
    from seamark.connect.model import Connector
    from seamark.context import Context
    from seamark.copies.cutover.operations import CutoverOperations
    from seamark.copies.plan.endpoints import CopyEndpoint
    from seamark.copies.plan.plan import CopyPlan
    from seamark.kafka.api import BrokersPort
    from seamark.kafka.model import TopicStatus


def find_leftover(
    plan: CopyPlan, *, name: str, kafka: BrokersPort, operations: CutoverOperations, abandon: Sequence[str] = ()
) -> str:
    """Find the topic to delete: the source, or the temporary copy if the source was recreated under its name.

    `name` is the name that `operations` use for the copy.

    Raises:
        RefusedError: the topic is deleted already, or a group has an offset in it and none in the other topic, or
            it holds records that were never copied to the other topic.
    """
    source, target = find_topic(kafka, plan.source.topic), find_topic(kafka, plan.target.topic)
    if source is None or target is None:
        gone = plan.source.topic if source is None else plan.target.topic
        raise RefusedError(f"copy {plan.id} was cleaned up already: topic {gone} does not exist")
    is_anew = bool(plan.source.topic_id) and source.topic_id != plan.source.topic_id
    left, kept = (target, source) if is_anew else (source, target)
    _refuse_stranded(left, kept, kafka=kafka, abandon=abandon)
    _refuse_uncopied(left, kept, copy=build_back_name(name) if is_anew else name, operations=operations)
    return left.name


def _refuse_uncopied(left: TopicStatus, kept: TopicStatus, *, copy: str, operations: CutoverOperations) -> None:
    """Refuse to delete records written after the cutover, for example by a producer that was not switched."""
    try:
        behind = operations.list_left(copy)
    except NotFoundError as error:
        raise RefusedError(
            f"{left.name} was never copied to {kept.name}; nothing was deleted",
            cause=error.message,
            hint="check the copies with seamark copies status, and cutovers with seamark journal list --state open",
        ) from None
    if behind:
        plan, count = parse_copy_name(copy)[0], sum(behind.values())
        raise RefusedError(
            f"{left.name} has {count} offsets that were never copied to {kept.name}; nothing was deleted",
            cause=f"offsets after the copied ones: {', '.join(f'partition {at} has {n}' for at, n in behind.items())}",
            hint=f"stop its producers, then copy the rest: seamark copies run {plan} --follow --max-lag 0; or, to "
            f"discard the records: seamark topics delete {left.name}",
        )


def _refuse_stranded(left: TopicStatus, kept: TopicStatus, *, kafka: BrokersPort, abandon: Sequence[str]) -> None:
    names = [found.name for found in kafka.read_all_groups().items if found.has_offsets]
    spots = (*left.spots, *kept.spots)
    committed = kafka.read_committed(dict.fromkeys(names, spots), with_metadata=False)
    landings = read_landings(kafka, spots)
    held = [
        *committed.require_complete(what="the committed offsets of the consumers"),
        *landings.require_complete(what="the ledgers of pipelines"),
    ]
    alone = [found.group for found in held if {spot[0] for spot in found.offsets} == {left.name}]
    stranded = [group for group in leave_mirrors_out(alone, landings) if group not in abandon]
    if stranded:
        raise RefusedError(
            f"{left.name} is still needed; nothing was deleted",
            cause=f"{', '.join(stranded)} has offsets in it, and none in {kept.name}",
            hint=f"cut over first: seamark copies cutover; or discard these offsets: --ignore-group {stranded[0]}",
        )


ISOLATION, COMMITTED = "consumer.override.isolation.level", "read_committed"
_ELSEWHERE = ("consumer.override.bootstrap.servers", "producer.override.bootstrap.servers")


@dataclass(frozen=True, slots=True)
class ConnectorRole:
    """A connector that takes part, as it is now and as the plan switches it."""

    connector: Connector
    planned: CutoverConnector

    @property
    def config(self) -> Mapping[str, str | None]:
        """Its config after the switch; None where a key is removed."""
        return {**self.connector.config, **self.planned.values}


@dataclass(frozen=True, slots=True)
class CutoverOptions:
    """The options of a cutover.

    `leave` are groups that stay with the source. `sources` are connectors that write to the source although seamark
    can't detect it. With `read_committed` the sinks get `isolation.level=read_committed`, so that they skip aborted
    records; with `allow_aborted_records` they read these records. With `in_place` the source is recreated under its own
    name from the target.
    """

    missing: str = ""
    level: str = "standard"
    leave: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    read_committed: bool = False
    allow_aborted_records: bool = False
    assume_worker_down: bool = False
    in_place: bool = False


class CutoverParticipants:
    """Finds the connectors and groups that take part in the cutover from one topic to another."""

    def __init__(
        self,
        source: str,
        target: str,
        *,
        options: CutoverOptions,
        clusters: Clusters,
        world: Environment,
        users: CopyUsers,
    ) -> None:
        self._source = source
        self._target = target
        self._options = options
        self._clusters = clusters
        self._world = world
        self._users = users

    def list_sinks(self) -> tuple[ConnectorRole, ...]:
        """Return the sinks that read the source. Sinks that share a group are listed together."""
        readers = [reader for reader in self._users.readers if reader.kind is ReaderKind.SINK]
        names = dict.fromkeys(name for reader in readers for name in reader.name.split(", "))
        return tuple(self._build_sink(name) for name in names)

    def list_sources(self) -> tuple[ConnectorRole, ...]:
        """Return the sources that write to the topic: those that seamark detects, and those that were named."""
        known = [parse_subject(user.subject) for user in self._users.writers if user.use is Use.WRITES]
        names = [ref.owner for ref in known if ref.kind == CONNECTOR]
        return tuple(self._build_source(name) for name in dict.fromkeys((*names, *self._options.sources)))

    def list_groups(self, sinks: Sequence[ConnectorRole]) -> tuple[CutoverGroup, ...]:
        """Return every group that gets offsets in the target.

        Raises:
            RefusedError: a group that doesn't belong to a sink has members.
        """
        chosen = [reader for reader in self._users.readers if reader.group and reader.group not in self._options.leave]
        self._refuse_active(chosen)
        by_name = {role.connector.owner: role for role in sinks}
        return tuple(
            CutoverGroup(reader.group, sees_aborted=self._sees_aborted(reader, by_name))
            for reader in {reader.group: reader for reader in chosen}.values()
        )

    def list_notes(self) -> tuple[str, ...]:
        """Return a note for each consumer and producer that the cutover doesn't switch."""
        notes = [f"{group} is not changed and stays on {self._source}" for group in self._options.leave]
        for user in self._users.writers:
            name = parse_subject(user.subject).owner
            if user.use is Use.MAY_WRITE and name not in self._options.sources:
                notes.append(f"{user.subject} may write to {self._source}; if it does, pass --source-connector {name}")
        return tuple(notes)

    def _build_sink(self, name: str) -> ConnectorRole:
        connector = self._read(name)
        if self._options.in_place:
            return self._build(connector, {})
        values = dict(switch_sink(connector.owner, connector.config, source=self._source, target=self._target))
        if self._options.read_committed and connector.config.get(ISOLATION) != COMMITTED:
            values[ISOLATION] = COMMITTED
        return self._build(connector, values)

    def _build_source(self, name: str) -> ConnectorRole:
        connector = self._read(name)
        if self._options.in_place:
            return self._build(connector, {})
        return self._build(connector, switch_source(connector.config, source=self._source, target=self._target))

    def _build(self, connector: Connector, values: Mapping[str, str | None]) -> ConnectorRole:
        if elsewhere := [key for key in _ELSEWHERE if connector.config.get(key)]:
            raise RefusedError(
                f"{connector.owner} can't be switched: it uses another Kafka cluster than this copy",
                cause=f"its config has {', '.join(elsewhere)}",
                hint="stop the connector and change its config yourself, or copy the topic in its Kafka cluster",
            )
        state = require_run_state(connector, self._world)
        return ConnectorRole(connector, CutoverConnector(connector.cluster, connector.name, state, values))

    def _read(self, name: str) -> Connector:
        ref = parse_owner(name)
        cluster = ref.cluster
        if not cluster:
            (cluster,) = self._clusters.names
        return self._clusters.client(cluster).read_connector(ref.name)

    def _refuse_active(self, readers: Sequence[CopyReader]) -> None:
        busy = [reader for reader in readers if reader.kind is ReaderKind.GROUP and reader.is_active]
        if busy:
            raise RefusedError(
                f"{self._source} has active consumers that seamark can't stop; no changes were made",
                cause=", ".join(f"group {reader.group} is {reader.state}" for reader in busy),
                hint=f"stop its members, or keep the group on the source: --exclude-group {busy[0].group}",
            )

    def _sees_aborted(self, reader: CopyReader, sinks: Mapping[str, ConnectorRole]) -> bool:
        # A pipeline reads committed records only.
        if self._options.allow_aborted_records or reader.kind is ReaderKind.PIPELINE:
            return False
        own = [sinks[name] for name in reader.name.split(", ") if name in sinks]
        if not own:
            # The isolation level of a consumer can't be observed. The default is `read_uncommitted`.
            return True
        return any(role.config.get(ISOLATION) != COMMITTED for role in own)


_UNTIL = "it can be undone until a producer writes to the new topic"
_FORWARD = (
    "it can't be undone once the topic is deleted; after that it can only be resumed, and the copy keeps every record "
    "until seamark copies cleanup"
)
_OTHERS = (
    "stop producers that are not connectors first, and switch them yourself; also consumers without a group, such as "
    "Spark and Flink jobs with checkpoints"
)


class CutoverPlanner:
    """Plans cutovers in one context."""

    def __init__(self, endpoint: CopyEndpoint, *, clusters: Clusters) -> None:
        self._context = endpoint.context
        self._world = endpoint.world
        self._open_kafka = endpoint.open_kafka
        self._planner = endpoint.planner()
        self._clusters = clusters

    def plan(self, copy: CopyPlan, options: CutoverOptions, *, name: str) -> PlannedChange:
        """Plan to switch consumers and producers of a copy's source to its target. `name` is the name that steps use.

        Raises:
            NotFoundError: the source or the target doesn't exist.
            RefusedError: a consumer or producer can't be switched.
        """
        cutover, notes = self._gather(copy, options, name=name)
        reads = self._planner.open_reads(1)
        seen = cutover.read(reads)
        needs = cutover.needs(seen)
        check_config_writes(needs.configs, self._clusters, self._context)
        access = build_rights_notes(needs.rights, context=self._context, brokers=self._open_kafka)
        return self._planner.plan(
            _build_title(cutover),
            [cutover],
            notes=(*notes, *self._build_notes(cutover), *access, _OTHERS, _say_end(cutover)),
            reads=reads,
            known={0: seen},
        )

    def _gather(self, copy: CopyPlan, options: CutoverOptions, *, name: str) -> tuple[CutOver, tuple[str, ...]]:
        source, target, kafka = copy.source.topic, copy.target.topic, self._open_kafka()
        status = find_topic(kafka, source)
        if status is None or find_topic(kafka, target) is None:
            gone = source if status is None else target
            raise NotFoundError(f"topic {gone} does not exist", hint=f"check the copy: seamark copies status {copy.id}")
        bounds = read_stable_bounds(kafka, status)
        left_out = sum(max(0, one.begin - bounds[one.partition].earliest) for one in copy.ranges)
        if options.in_place:
            _refuse_loss(copy, options, left_out=left_out)
        users = read_copy_users(status, bounds, clusters=self._clusters, kafka=kafka, now=self._world.clock.now())
        participants = CutoverParticipants(
            source, target, options=options, clusters=self._clusters, world=self._world, users=users
        )
        sinks = participants.list_sinks()
        changed = [choice for choice in copy.configs if choice.value != choice.final]
        new = RecreatedTopic(
            status.topic_id,
            copy.target.partitions,
            copy.target.replication_factor,
            {choice.key: choice.value for choice in copy.configs},
        )
        cutover = CutOver(
            name,
            source,
            target,
            sinks=tuple(one.planned for one in sinks),
            sources=tuple(one.planned for one in participants.list_sources()),
            groups=participants.list_groups(sinks),
            configs={choice.key: choice.final for choice in changed},
            held={choice.key: choice.value for choice in changed},
            missing=options.missing,
            level=options.level,
            accepts_zombies=options.assume_worker_down,
            recreated=new if options.in_place else None,
        )
        gap = (f"{left_out} offsets of {source} before the start of the copy are not in {target}",) if left_out else ()
        return cutover, (*gap, *users.notes, *participants.list_notes())

    def _build_notes(self, cutover: CutOver) -> Iterator[str]:
        if cutover.sinks and not cutover.recreated:
            names = ", ".join(f"{one.cluster}/{one.name}" for one in cutover.sinks)
            yield f"if {names} names its output after the topic, the name changes to that of {cutover.target}"
        yield from _describe_pipelines(cutover)
        yield from _describe_exact_consumers(cutover, self._context)


def _refuse_loss(copy: CopyPlan, options: CutoverOptions, *, left_out: int) -> None:
    """Refuse to delete a topic that holds records that the copy doesn't have, or that a group stays with."""
    if left_out:
        raise RefusedError(
            f"{copy.source.topic} can't be recreated from this copy; no changes were made",
            cause=f"{left_out} offsets before the start of the copy were not copied and would be deleted with the "
            "topic",
            hint="create a plan without --start, or cut over without --in-place",
        )
    if options.leave:
        raise UsageError(
            f"--exclude-group can't be used with --in-place: {copy.source.topic} is deleted and recreated",
            hint="remove --in-place or --exclude-group",
        )


def _build_title(cutover: CutOver) -> str:
    if cutover.recreated:
        return f"recreate {cutover.source} with {cutover.recreated.partitions} partitions, from {cutover.target}"
    return f"cut over {cutover.source} to {cutover.target}"


def _say_end(cutover: CutOver) -> str:
    return _FORWARD if cutover.recreated else _UNTIL


def _describe_pipelines(cutover: CutOver) -> Iterator[str]:
    """Describe what the owner of each pipeline has to do: seamark can't change its file, nor stop its runs."""
    for owner in cutover.pipelines:
        yield (
            f"stop {owner} first: seamark can't detect whether it runs; a current run is fenced and ends with an error"
        )
        if not cutover.recreated:
            yield say_file(owner, cutover.source, target=cutover.target)


def _describe_exact_consumers(cutover: CutOver, context: Context) -> Iterator[str]:
    """Describe what to check before the group of an exact consumer is moved.

    The consumer resumes from the offset that its group has committed.
    """
    groups = [one.group for one in cutover.groups if not one.is_pipeline]
    known = list_consumers(context) if groups else frozenset()
    for group in groups:
        if group in known:
            yield (
                f"group {group} belongs to a consumer with a ledger; if it was killed, its committed offsets are older "
                f"than the ledger, and rows would be duplicated: compare seamark groups show {group} with table "
                "seamark_ledger, and if they differ, start the consumer once more and close it"
            )
