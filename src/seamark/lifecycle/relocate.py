"""The action that gives a source connector another offsets topic, and copies its offsets there while it is stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

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
from seamark.changes.step import CanNotUndo, ConnectorSubject, Intent, Observed, Step, compare_places, step_kind
from seamark.connect.capability import Capability
from seamark.connect.config import OWN_OFFSETS_TOPIC
from seamark.connect.model import Connector
from seamark.connectors.policy import refuse_violations
from seamark.connectors.run_state import SetRunState
from seamark.connectors.steps import PutConfig
from seamark.core.offsets import Offset
from seamark.core.refs import ConnectorType
from seamark.errors import NotFoundError, RefusedError, StalePlanError, UnsupportedError
from seamark.kafka.model import HeldRecord
from seamark.offsets.model import DEFAULT_SAFETY, SafetyOptions, TopicHolding
from seamark.offsets.port import OFFSETS, PLANNING
from seamark.offsets.quiesce import refuse_moving
from seamark.offsets.stores.topic import check_record_topic
from seamark.offsets.write.action import Quiesced, build_progress, find_unrestored_state, read_quiesced
from seamark.offsets.write.guards import build_config_pin
from seamark.offsets.write.rights import build_rights_notes
from seamark.policy.permissions import Permission, Right
from seamark.report.words import render_count
from seamark.topics.actions import CreateTopic

if TYPE_CHECKING:
    from seamark.context import ConnectSettings
    from seamark.kafka.model import TopicStatus
    from seamark.offsets.port import OffsetDependencies


@dataclass(frozen=True, slots=True)
class _Carried(ConnectorSubject, Step):
    """Base of the two steps on copied offsets."""

    source: str
    target: str

    def _read(self, world: Environment) -> tuple[TopicHolding, tuple[HeldRecord, ...]]:
        """Read what the target topic contains, and what it should contain."""
        port = world.use(OFFSETS)(self.cluster, self.name)
        source, target = port.read_topic(self.source), port.read_topic(self.target)
        return target, build_carried(source, target, subject=self.subject)


@step_kind("relocate-records")
@dataclass(frozen=True, slots=True)
class CopyOffsetRecords(_Carried):
    """Write the newest record of each of the connector's keys in `source` to the topic `target`, with the same bytes.

    The records are read when the step runs, because a running source commits offsets until it is stopped. A key that
    only the target has, from an earlier use of that topic by the connector, gets a tombstone there. Undo copies the
    records back, as they are then.
    """

    aspect: ClassVar[str] = POSITION
    repeats: ClassVar[bool] = True

    def describe(self) -> str:
        return f"copy the offsets of {self.subject} from topic {self.source} to topic {self.target}, byte for byte"

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
        return CopyOffsetRecords(self.cluster, self.name, self.target, self.source)


@step_kind("verify-relocated")
@dataclass(frozen=True, slots=True)
class VerifyCopiedRecords(CheckStep, _Carried):
    """Verify, right before the connector uses the target topic, that it has the same offsets as the source topic."""

    aspect: ClassVar[str] = "verified"

    def describe(self) -> str:
        return f"verify the offsets of {self.subject} in topic {self.target}"

    def perform(self, world: Environment, intent: Intent) -> str:
        held, wanted = self._read(world)
        if wrong := self._find_wrong(held, wanted):
            raise RefusedError(
                f"topics {self.target} and {self.source} have different offsets of {self.subject}",
                cause=f"they differ in {', '.join(wrong[:5])}",
                hint="find the program that writes them",
            )
        count = sum(record.value is not None for record in wanted)
        return f"{count} offset" + ("" if count == 1 else "s")

    def observe(self, world: Environment, intent: Intent) -> Observed:
        return Observed.BEFORE if self._find_wrong(*self._read(world)) else Observed.AFTER

    def _find_wrong(self, held: TopicHolding, wanted: Sequence[HeldRecord]) -> list[str]:
        found = _build_image(wanted, held)["records"]
        return [place for place, one in _build_wanted(wanted)["records"].items() if found[place] != one]


@step_kind("create-offsets-topic")
@dataclass(frozen=True, slots=True)
class CreateOffsetsTopic(CreateTopic):
    """Create the topic for a connector's own offsets. Undo keeps it, because it contains the copied offsets."""

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        return None


def build_carried(source: TopicHolding, target: TopicHolding, *, subject: str) -> tuple[HeldRecord, ...]:
    """Return the records that make a topic contain the same offsets of a connector as another topic.

    A key goes to the partitions where the target already has it; a new key goes where a Java producer would put it.

    Raises:
        RefusedError: a key has different values on several partitions of the source topic.
    """
    values: dict[bytes, bytes | None] = {}
    for record in source.records:
        if values.get(record.key, record.value) != record.value:
            raise RefusedError(
                f"can't determine which record has the offsets of {subject}; no changes were made",
                cause=f"{record.key!r} is on several partitions of {source.topic}, with different values",
                hint="show all records: seamark offsets show OWNER",
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
    """Return the topic's current values for the keys of these records. A missing record equals a tombstone."""
    now: Mapping[str, HeldRecord] = {record.place: record for record in held.records}
    return {
        "records": {
            record.place: {**record.to_dict(), "value": now[record.place].to_dict()["value"]}
            if record.place in now
            else {**record.to_dict(), "value": None}
            for record in records
        }
    }


# Records are written one by one, each acknowledged: a few milliseconds each, and a step has 20 s to send them.
_MOST_OFFSETS = 2000


@dataclass(frozen=True, slots=True)
class OffsetsTopicShape:
    """The settings of a new offsets topic."""

    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RelocationSeen:
    """What `RelocateOffsets` reads: the present and the new config, the number of offsets, their present values."""

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
class RelocateOffsets(ConnectorSubject, Action):
    """Make a source connector store its offsets in the topic `target` instead of `source`, and copy all of its offsets.

    If the target is the workers' offsets topic, `offsets.storage.topic` is removed from the config, unless `is_named`.
    `topic` are the settings to create a missing target with. `config` is the fingerprint of the config that the plan
    was created for; an undo has none. `restores` is the state to restore if it isn't the connector's state at planning.
    `wait_seconds` is how long to wait for the first new offset.
    """

    # If the config doesn't name the other topic, there is nothing to copy back.
    reaches_by_itself: ClassVar[bool] = True

    source: str
    target: str
    topic: OffsetsTopicShape | None = None
    is_named: bool = False
    wait_seconds: float | None = None
    accepts_zombies: bool = False
    config: str = ""
    restores: str = ""

    def read(self, reads: Reads) -> RelocationSeen:
        """Read one connector and its offsets in both topics.

        Raises:
            StalePlanError: the connector now uses a third topic.
            UnsupportedError: it has more offsets than can be copied in one step.
        """
        quiesced, planning = read_quiesced(self.cluster, self.name, reads), reads.use(PLANNING)
        settings, connector = planning.clusters.settings(self.cluster), quiesced.connector
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
                f"{self.subject} uses another offsets topic now; no changes were made",
                cause=f"it uses {used}; the plan copies its offsets from {self.source} to {self.target}",
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
        """Return the steps: stop, check, copy and verify the offsets, set the topic in the config, restore the state.

        If the offsets can't be copied, the connector continues with its present topic and reprocesses nothing.
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
        """Return the locks of both topics, the ACLs to read both and write one, and the config for the policy."""
        rights = {Right("topic", one, "READ") for one in (self.source, self.target)}
        shown, kept = split_secrets(seen.config, seen.present, seen.typed)
        return Needs(
            seen.locks,
            frozenset({*rights, Right("topic", self.target, "WRITE")}),
            (ConfigWrite(self.cluster, self.name, shown, kept),),
        )

    def effects(self, seen: RelocationSeen) -> tuple[Effect, ...]:
        """Return one line for the connector, preceded by one for a topic that is created."""
        key, status = OWN_OFFSETS_TOPIC, seen.quiesced.connector.status
        # An undo copies the offsets that exist when it is applied.
        what = render_count(seen.count, "offset") if self.config else "its offsets"
        means = (
            "nothing is reprocessed"
            if seen.count or not self.config
            else "it starts from the beginning, as it would now"
        )
        effect = Effect(
            ChangeKind.CHANGE,
            self.subject,
            f"stops, copies {what} to topic {self.target}, resumes: {means}",
            (FieldChange(key, seen.present.get(key), seen.config.get(key)),),
            tasks=len(status.tasks) if status else 0,
        )
        return (effect,) if self.topic is None else (_build_topic_effect(self.target, self.topic), effect)

    def build_undo(self, past: ActionHistory) -> Action | CanNotUndo | None:
        """Return the action that copies the offsets back, as they are then. A created topic stays."""
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
        """Return how many offsets are copied."""
        port = reads.world.use(OFFSETS)(self.cluster, self.name)
        held = TopicHolding(self.target, (), lambda _: 0) if self.topic else port.read_topic(self.target)
        carried = build_carried(port.read_topic(self.source), held, subject=self.subject)
        if len(carried) > _MOST_OFFSETS:
            raise UnsupportedError(
                f"{self.cluster}/{self.name} has {len(carried)} offsets, too many to copy at once; "
                "no changes were made",
                cause=f"a step has time to write at most {_MOST_OFFSETS} offsets",
            )
        return sum(record.value is not None for record in carried)


def _build_topic_effect(name: str, topic: OffsetsTopicShape) -> Effect:
    replicas = render_count(topic.replication_factor, "replica")
    return Effect(
        ChangeKind.CREATE,
        f"topic/{name}",
        f"create, compacted, {render_count(topic.partitions, 'partition')}, {replicas}",
    )


# According to Connect, a connector that gets its own offsets topic falls back to the workers' topic. It doesn't (seen
# with 3.5 to 4.3): it starts from the beginning. So its offsets are copied first, while it is stopped.

_ELSEWHERE = ("producer.override.bootstrap.servers", "consumer.override.bootstrap.servers")
_POLICY = "cleanup.policy"


@dataclass(frozen=True, slots=True)
class Relocations:
    """Plans another offsets topic for a source connector. Makes no changes; `fleet.apply` does."""

    deps: OffsetDependencies

    def plan(self, connector: Connector, topic: str | None, *, safety: SafetyOptions = DEFAULT_SAFETY) -> PlannedChange:
        """Plan to store a source connector's offsets in a topic; None is the workers' topic."""
        settings = self.deps.clusters.settings(connector.cluster)
        self._refuse_other(connector, settings)
        workers = settings.offsets_topic
        if workers is None:
            raise self.deps.context.missing(f"connect.{connector.cluster}.offsets_topic")
        source, target = connector.config.get(OWN_OFFSETS_TOPIC) or workers, topic or workers
        title = f"store the offsets of {connector.owner} in {target}"
        reads = self.deps.planner.build_reads(self.deps.world)
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
                f"the offsets of {connector.name} in {source} are kept; an undo copies back the offsets it has then",
                *build_rights_notes(rights, context=self.deps.context, brokers=self.deps.world.kafka),
            ),
            reads=reads,
            known={0: seen},
        )

    def _refuse_other(self, connector: Connector, settings: ConnectSettings) -> None:
        """Refuse a connector that can't have its own offsets topic, or whose topic can't be reached from here."""
        client = self.deps.clusters.client(connector.cluster)
        client.read_capabilities().require(Capability.STOP, doing=f"copy the offsets of {connector.owner}")
        if connector.type is not ConnectorType.SOURCE or settings.offsets_file is not None:
            what = "a sink has a consumer group" if connector.type is ConnectorType.SINK else "its worker uses a file"
            raise UnsupportedError(
                f"{connector.owner} can't have an offsets topic of its own; no changes were made",
                cause=what if connector.type is not ConnectorType.UNKNOWN else "its type is unknown",
            )
        if any(connector.config.get(key) for key in _ELSEWHERE) or self.deps.world.stores.has_own_partitioner(
            connector
        ):
            raise UnsupportedError(
                f"the offsets of {connector.owner} can't be copied; no changes were made",
                cause="its clients use another Kafka cluster or a partitioner of their own",
            )

    def _find_shape(self, target: str, *, workers: str) -> OffsetsTopicShape | None:
        """Return the settings to create the topic with; None if it exists and keeps offsets."""
        reading = self.deps.world.kafka().read_topics([target, workers])
        found = {topic.name: topic for topic in reading.items}
        for name, error in reading.failures.items():
            if name != target or not isinstance(error, NotFoundError):
                raise error
        if target not in found:
            like = found[workers]
            # Create it as a worker would: like the workers' own topic.
            return OffsetsTopicShape(len(like.partitions), like.replication_factor, {_POLICY: "compact"})
        _refuse_deleting(found[target])
        return None


def _refuse_deleting(topic: TopicStatus) -> None:
    policy = topic.configs.get(_POLICY)
    if policy is not None and policy.value != "compact":
        raise RefusedError(
            f"topic {topic.name} is not compacted; no changes were made",
            cause=f"its {_POLICY} is {policy.value}, so that offsets older than its retention are deleted",
            hint=f"choose another topic, or run: seamark topics update {topic.name} --config {_POLICY}=compact",
        )
