"""The action that gives a source another offsets topic, and carries its offsets there while it is stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

from seamark.changes.action import (
    LOCKS,
    Action,
    ActionHistory,
    CheckStep,
    ConfigWrite,
    Needs,
    Reads,
    StepSequence,
    action_kind,
    needs_permission,
)
from seamark.changes.effect import ChangeKind, Effect, FieldChange
from seamark.changes.environment import Environment
from seamark.changes.images import find_typed, split_secrets
from seamark.changes.locks import topic_lock
from seamark.changes.plan import PlannedChange
from seamark.changes.preconditions import POSITION
from seamark.changes.step import CanNotUndo, Intent, Observed, Step, compare_places, step_kind
from seamark.connect.capability import Capability
from seamark.connect.config import OWN_OFFSETS_TOPIC
from seamark.connect.model import Connector
from seamark.connectors.policy import refuse_violations
from seamark.connectors.run_state import SetRunState
from seamark.connectors.steps import PutConfig
from seamark.core.offsets import Offset
from seamark.core.readings import read_all
from seamark.core.refs import ConnectorType
from seamark.errors import NotFoundError, RefusedError, StalePlanError, UnsupportedError
from seamark.kafka.model import HeldRecord
from seamark.offsets.model import TopicHolding
from seamark.offsets.port import OFFSETS, PLANNING
from seamark.offsets.quiesce import refuse_moving
from seamark.offsets.stores.write_checks import check_record_topic
from seamark.offsets.write.action import Quiesced, build_progress, find_unrestored_state, read_quiesced
from seamark.offsets.write.guards import build_config_pin
from seamark.offsets.write.preview import DEFAULT_SAFETY, SafetyOptions
from seamark.offsets.write.rights import build_rights_notes
from seamark.policy.permissions import Permission, Right
from seamark.report.words import render_count
from seamark.topics.actions import CreateTopic

if TYPE_CHECKING:
    from seamark.context import ConnectSettings
    from seamark.kafka.model import TopicStatus
    from seamark.offsets.port import OffsetDependencies


@dataclass(frozen=True, slots=True)
class _Carried(Step):
    """What the two steps about carried offsets share."""

    cluster: str
    name: str
    source: str
    target: str

    @property
    def subject(self) -> str:
        return f"connector/{self.cluster}/{self.name}"

    def _read(self, world: Environment) -> tuple[TopicHolding, tuple[HeldRecord, ...]]:
        """What the target holds, and what it shall hold."""
        port = world.use(OFFSETS)(self.cluster, self.name)
        source, target = port.read_topic(self.source), port.read_topic(self.target)
        return target, build_carried(source, target, subject=self.subject)


@step_kind("carry-offsets")
@dataclass(frozen=True, slots=True)
class CopyOffsetRecords(_Carried):
    """The topic `target` gets the newest record of every key of the connector in `source`, with the same bytes.

    What is carried is read when it is done: a running source moves on until its stop. A key that only the target has,
    from a time when the connector used it before, is taken away there. Undoing it carries them back, as they are then.
    """

    aspect: ClassVar[str] = POSITION
    repeats: ClassVar[bool] = True

    def describe(self) -> str:
        return f"carry the offsets of {self.subject} from topic {self.source} to topic {self.target}, to the byte"

    def intend(self, world: Environment) -> Intent:
        held, wanted = self._read(world)
        return Intent(before=_build_image(wanted, held), after=_build_wanted(wanted))

    def perform(self, world: Environment, intent: Intent) -> None:
        refuse_moving(world, self.cluster, self.name)
        records = [
            HeldRecord.from_dict(found)
            for place, found in intent.after["records"].items()
            if intent.before["records"].get(place) != found
        ]
        world.use(OFFSETS)(self.cluster, self.name).write(records, into=self.target)

    def observe(self, world: Environment, intent: Intent) -> Observed:
        wanted = tuple(HeldRecord.from_dict(found) for found in intent.after["records"].values())
        held = world.use(OFFSETS)(self.cluster, self.name).read_topic(self.target)
        return compare_places(_build_image(wanted, held), intent, "records")

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        del intent
        return CopyOffsetRecords(self.cluster, self.name, self.target, self.source)


@step_kind("verify-carried")
@dataclass(frozen=True, slots=True)
class VerifyCopiedRecords(CheckStep, _Carried):
    """Right before the connector uses the other topic, that holds what the one does that it used."""

    aspect: ClassVar[str] = "verified"

    def describe(self) -> str:
        return f"verify the offsets of {self.subject} in topic {self.target}"

    def perform(self, world: Environment, intent: Intent) -> str:
        del intent
        held, wanted = self._read(world)
        if wrong := self._find_wrong(held, wanted):
            raise RefusedError(
                f"topic {self.target} does not hold what topic {self.source} does of {self.subject}",
                cause=f"they differ in {', '.join(wrong[:5])}",
                hint="find out who writes them",
            )
        count = sum(record.value is not None for record in wanted)
        return f"{count} offset" + ("" if count == 1 else "s")

    def observe(self, world: Environment, intent: Intent) -> Observed:
        del intent
        return Observed.BEFORE if self._find_wrong(*self._read(world)) else Observed.AFTER

    def _find_wrong(self, held: TopicHolding, wanted: Sequence[HeldRecord]) -> list[str]:
        found = _build_image(wanted, held)["records"]
        return [place for place, one in _build_wanted(wanted)["records"].items() if found[place] != one]


@step_kind("make-offsets-topic")
@dataclass(frozen=True, slots=True)
class CreateOffsetsTopic(CreateTopic):
    """The topic for a connector's own offsets. Undoing the change leaves it: it holds a copy of what was carried."""

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        del intent
        return None


def build_carried(source: TopicHolding, target: TopicHolding, *, subject: str) -> tuple[HeldRecord, ...]:
    """The records that make a topic hold what another one does of a connector.

    A key goes where it lies already; a new one where a Java producer puts it.
    """
    values: dict[bytes, bytes | None] = {}
    for record in source.records:
        if values.get(record.key, record.value) != record.value:
            raise RefusedError(
                f"nobody can tell which record holds the offsets of {subject}; nothing was changed",
                cause=f"{record.key!r} is on several partitions of {source.topic}, and they differ",
                hint="seamark offsets show shows all of them",
            )
        values[record.key] = record.value
    places: dict[bytes, list[int]] = {}
    for record in target.records:
        places.setdefault(record.key, []).append(record.partition)
    carried = []
    for key in sorted({*values, *places}):
        value = values.get(key)
        homes = places.get(key) or ([target.find_home(key)] if value is not None else [])
        carried += [HeldRecord(target.topic, partition, key, value) for partition in sorted(homes)]
    return tuple(carried)


def _build_wanted(records: Sequence[HeldRecord]) -> dict[str, Any]:
    return {"records": {record.place: record.to_dict() for record in records}}


def _build_image(records: Sequence[HeldRecord], held: TopicHolding) -> dict[str, Any]:
    """What a topic holds at the places of these records. No record and a tombstone are the same."""
    now: Mapping[str, HeldRecord] = {record.place: record for record in held.records}
    return {
        "records": {
            record.place: {**record.to_dict(), "value": now[record.place].to_dict()["value"]}
            if record.place in now
            else {**record.to_dict(), "value": None}
            for record in records
        }
    }


# Records are written one after the other, each acknowledged: some milliseconds each, and a step has 20 s for sending.
_MOST_OFFSETS = 2000


@dataclass(frozen=True, slots=True)
class OffsetsTopicShape:
    """How a new offsets topic is created."""

    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RelocationSeen:
    """What `RelocateOffsets` reads: the configs now and then, how many offsets are carried, what they are now."""

    quiesced: Quiesced
    present: Mapping[str, str] = field(repr=False)
    config: Mapping[str, str] = field(repr=False)
    is_there: bool
    count: int
    locks: frozenset[str]
    progress: tuple[Step, ...]
    typed: frozenset[str] = frozenset()


@action_kind("relocate-offsets")
@needs_permission(Permission.CHANGE_OFFSETS, Permission.CHANGE_CONFIG)
@dataclass(frozen=True, slots=True)
class RelocateOffsets(Action):
    """Let a source keep its offsets in the topic `target` instead of `source`; all that it holds goes along.

    The config loses `offsets.storage.topic` where the target is the topic of its workers, unless `is_named`. `topic` is
    how the target is created where there is none yet. `config` is the fingerprint of the config that the plan was
    created for; an undo has none. `restores` is the state to restore where it isn't the one that the connector has when
    the plan is prepared. `wait_seconds` is how long the first new offset is waited for.
    """

    # Where the config doesn't name the other topic, there is nothing to carry back.
    reaches_by_itself: ClassVar[bool] = True

    cluster: str
    name: str
    source: str
    target: str
    topic: OffsetsTopicShape | None = None
    is_named: bool = False
    wait_seconds: float | None = None
    accepts_zombies: bool = False
    config: str = ""
    restores: str = ""

    @property
    def subject(self) -> str:
        """The connector."""
        return f"connector/{self.cluster}/{self.name}"

    @classmethod
    def inspect(cls, actions: Sequence[Self], reads: Reads) -> Sequence[RelocationSeen]:
        """Read the connectors, and what both topics hold of them."""
        return read_all((action.subject, partial(action.read, reads)) for action in actions)

    def read(self, reads: Reads) -> RelocationSeen:
        """Read one connector, and what both topics hold of it.

        Raises:
            StalePlanError: the connector uses a third topic by now.
            UnsupportedError: it holds more offsets than are carried at once.
        """
        quiesced, planning = read_quiesced(self.cluster, self.name, reads), reads.use(PLANNING)
        settings, connector = planning.settings(self.cluster), quiesced.connector
        workers = settings.offsets_topic
        if workers is None:
            raise planning.context.missing(f"connect.{self.cluster}.offsets_topic")
        check_record_topic(self.target, planning.context, is_for_offsets=True)
        present = {key: value for key, value in connector.config.items() if key != "name"}
        config = {key: value for key, value in present.items() if key != OWN_OFFSETS_TOPIC}
        if self.target != workers or self.is_named:
            config[OWN_OFFSETS_TOPIC] = self.target
        used = present.get(OWN_OFFSETS_TOPIC) or workers
        if used not in (self.source, self.target):
            raise StalePlanError(
                f"{self.subject} keeps its offsets in another topic by now; no changes were made",
                cause=f"it uses {used}, and the plan carries them from {self.source} to {self.target}",
                hint="create a new plan and review it",
            )
        port = reads.world.use(OFFSETS)(self.cluster, self.name)
        held = tuple(Offset(found.partition, found.offset) for found in port.read_all())
        progress = build_progress(
            self.cluster,
            self.name,
            held,
            (),
            context=planning.context,
            settings=settings,
            wait_seconds=self.wait_seconds,
            carried=True,
        )
        locks = reads.use(LOCKS).find_connector(self.cluster, self.name, [present, config], kind=connector.type)
        return RelocationSeen(
            quiesced,
            present,
            config,
            is_there=used == self.target,
            count=0 if used == self.target else self._count(reads),
            locks=locks | ({topic_lock(self.target)} if self.topic else frozenset()),
            progress=progress if held else (),
            typed=find_typed(reads.world, self.cluster, present),
        )

    def steps(self, seen: RelocationSeen) -> StepSequence:
        """Stop, check, carry the offsets, verify them, name the topic in the config, restore the state.

        Where the offsets can't be carried, the connector continues with the topic that it has and reprocesses nothing.
        """
        if not seen.is_there:
            inner = self._build_inner(seen)
        elif (self.restores or seen.quiesced.state) == seen.quiesced.state:
            return ()
        else:
            inner = ()
        return seen.quiesced.surround(
            inner,
            accepts_zombies=self.accepts_zombies,
            config=self.config,
            restores=self.restores,
            progress=seen.progress,
            is_undo=not self.config,
        )

    def needs(self, seen: RelocationSeen) -> Needs:
        """The locks with both topics, the rights to read both and to write one, the policy's consent to the config."""
        rights = {Right("topic", one, "READ") for one in (self.source, self.target)}
        shown, kept = split_secrets(seen.config, seen.present, seen.typed)
        return Needs(
            seen.locks,
            frozenset({*rights, Right("topic", self.target, "WRITE")}),
            (ConfigWrite(self.cluster, self.name, shown, kept),),
        )

    def effects(self, seen: RelocationSeen) -> tuple[Effect, ...]:
        """One line for the connector, one before it for a topic that is created."""
        key, status = OWN_OFFSETS_TOPIC, seen.quiesced.connector.status
        # An undo carries what is there when it is done.
        what = render_count(seen.count, "offset") if self.config else "its offsets"
        means = "nothing is read again" if seen.count or not self.config else "it begins anew, as it does now"
        effect = Effect(
            ChangeKind.CHANGE,
            self.subject,
            f"stops, takes {what} to topic {self.target}, goes on: {means}",
            (FieldChange(key, seen.present.get(key), seen.config.get(key)),),
            tasks=len(status.tasks) if status else 0,
        )
        return (effect,) if self.topic is None else (_build_topic_effect(self.target, self.topic), effect)

    def build_undo(self, past: ActionHistory) -> Action | CanNotUndo | None:
        """Return the action that carries the offsets back, as they are then. A topic that was created stays."""
        restores = find_unrestored_state(past)
        put = past.find(PutConfig)
        if put is None or put.intent is None or put.intent.before is None:
            return SetRunState(self.cluster, self.name, restores) if restores else None
        is_named = OWN_OFFSETS_TOPIC in put.intent.before["config"]
        return RelocateOffsets(self.cluster, self.name, self.target, self.source, is_named=is_named, restores=restores)

    def _build_inner(self, seen: RelocationSeen) -> tuple[Step, ...]:
        cluster, name, topic = self.cluster, self.name, self.topic
        shown, kept = split_secrets(seen.config, seen.present, seen.typed)
        return (
            *(
                ()
                if topic is None
                else (CreateOffsetsTopic(self.target, topic.partitions, topic.replication_factor, topic.configs),)
            ),
            CopyOffsetRecords(cluster, name, self.source, self.target),
            VerifyCopiedRecords(cluster, name, self.source, self.target),
            PutConfig(cluster, name, shown, keep=kept),
        )

    def _count(self, reads: Reads) -> int:
        """Return how many offsets are carried."""
        port = reads.world.use(OFFSETS)(self.cluster, self.name)
        held = TopicHolding(self.target, (), lambda _: 0) if self.topic else port.read_topic(self.target)
        carried = build_carried(port.read_topic(self.source), held, subject=self.subject)
        if len(carried) > _MOST_OFFSETS:
            raise UnsupportedError(
                f"{self.cluster}/{self.name} holds {len(carried)} offsets, too many to be carried at once; "
                "nothing was changed",
                cause=f"up to {_MOST_OFFSETS} are written in the time that a step has",
            )
        return sum(record.value is not None for record in carried)


def _build_topic_effect(name: str, topic: OffsetsTopicShape) -> Effect:
    copies = render_count(topic.replication_factor, "copy", "copies")
    return Effect(
        ChangeKind.CREATE,
        f"topic/{name}",
        f"create, compacted, {render_count(topic.partitions, 'partition')}, {copies}",
    )


# Connect says that a connector which gets a topic of its own falls back to the workers' one. It does not (seen with
# 3.5 to 4.3): it begins anew. So its offsets are carried over first, while it is stopped.

_ELSEWHERE = ("producer.override.bootstrap.servers", "consumer.override.bootstrap.servers")
_POLICY = "cleanup.policy"


@dataclass(frozen=True, slots=True)
class Relocations:
    """Plans another offsets topic for a source. Nothing is changed here; `fleet.apply` does it."""

    deps: OffsetDependencies

    def plan(self, connector: Connector, topic: str | None, *, safety: SafetyOptions = DEFAULT_SAFETY) -> PlannedChange:
        """Let a source keep its offsets in that topic; None is the one of its workers."""
        settings = self.deps.clusters.settings(connector.cluster)
        self._refuse_other(connector, settings)
        workers = settings.offsets_topic
        if workers is None:
            raise self.deps.context.missing(f"connect.{connector.cluster}.offsets_topic")
        source, target = connector.config.get(OWN_OFFSETS_TOPIC) or workers, topic or workers
        title = f"keep the offsets of {connector.owner} in {target}"
        reads = self.deps.planner.open_reads(1).over(self.deps.world)
        if source == target:
            return self.deps.planner.plan(title, (), reads=reads)
        check_record_topic(target, self.deps.context, is_for_offsets=True)
        action = RelocateOffsets(
            connector.cluster,
            connector.name,
            source,
            target,
            self._find_shape(target, workers=workers),
            wait_seconds=safety.wait_seconds,
            accepts_zombies=safety.accepts_zombies,
            config=build_config_pin(connector.config, self.deps.world, cluster=connector.cluster),
        )
        seen = action.read(reads)
        cluster, name = connector.cluster, connector.name
        refuse_violations([(name, cluster, seen.config)], self.deps.context, present={(cluster, name): seen.present})
        rights = action.needs(seen).rights
        return self.deps.planner.plan(
            title,
            [action],
            notes=(
                f"what {connector.name} holds in {source} stays there; an undo carries back what it holds then",
                *build_rights_notes(rights, context=self.deps.context, brokers=self.deps.world.kafka),
            ),
            reads=reads,
            known={0: seen},
        )

    def _refuse_other(self, connector: Connector, settings: ConnectSettings) -> None:
        """Refuse what has no topic of its own, or one that nobody here can reach."""
        client = self.deps.clusters.client(connector.cluster)
        client.read_capabilities().require(Capability.STOP, doing=f"carry the offsets of {connector.owner}")
        if connector.type is not ConnectorType.SOURCE or settings.offsets_file is not None:
            what = "a sink has a consumer group" if connector.type is ConnectorType.SINK else "its worker has a file"
            raise UnsupportedError(
                f"{connector.owner} can't have an offsets topic of its own; nothing was changed",
                cause=what if connector.type is not ConnectorType.UNKNOWN else "nobody can tell whether it is a source",
            )
        if any(connector.config.get(key) for key in _ELSEWHERE) or self.deps.world.stores.has_own_partitioner(
            connector
        ):
            raise UnsupportedError(
                f"the offsets of {connector.owner} can't be carried; nothing was changed",
                cause="its clients have a Kafka cluster or a partitioner of their own",
            )

    def _find_shape(self, target: str, *, workers: str) -> OffsetsTopicShape | None:
        """Return how the topic is created; None where it is there and keeps offsets."""
        reading = self.deps.world.kafka().read_topics([target, workers])
        found = {topic.name: topic for topic in reading.items}
        for name, error in reading.failures.items():
            if name != target or not isinstance(error, NotFoundError):
                raise error
        if target not in found:
            like = found[workers]
            # As a worker would create it: like its own.
            return OffsetsTopicShape(len(like.partitions), like.replication_factor, {_POLICY: "compact"})
        _refuse_deleting(found[target])
        return None


def _refuse_deleting(topic: TopicStatus) -> None:
    policy = topic.configs.get(_POLICY)
    if policy is not None and policy.value != "compact":
        raise RefusedError(
            f"topic {topic.name} does not keep offsets; nothing was changed",
            cause=f"its {_POLICY} is {policy.value}: what is older than its retention is deleted",
            hint="give another topic, or make it compact",
        )
