"""A source gets an offsets topic of its own, or goes back to that of its workers, and reads nothing again.

Connect says that a connector which gets a topic of its own falls back to the workers' one. It does not (seen with 3.5
to 4.3): it begins anew. So its offsets are carried over first, while it is stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seamark.change.locks import topic_lock
from seamark.change.steps.connector import PutConfig
from seamark.change.steps.relocate import CarryOffsets, MakeOffsetsTopic, build_carried
from seamark.change.steps.run_state import SetRunState
from seamark.change.steps.stopped import build_config_pin, name_workers, pin_config, surround
from seamark.connect.capability import Capability
from seamark.errors import NotFoundError, RefusedError, UnsupportedError
from seamark.fleet.connector_life.config import split_secrets
from seamark.fleet.lock_names import OWN_OFFSETS_TOPIC, build_lock_notes, build_locks
from seamark.fleet.moving.access import build_access_notes
from seamark.fleet.moving.guards import build_restore, find_quiet_seconds, find_workers, require_run_state
from seamark.fleet.moving.progress import build_progress
from seamark.fleet.plan_draft import build_plan
from seamark.fleet.planned import Planned
from seamark.fleet.policy import refuse_violations
from seamark.model.connector import Connector, ConnectorType
from seamark.model.effect import Effect, FieldChange, Sign
from seamark.model.held_offset import TopicHolding
from seamark.model.offset import Offset
from seamark.model.plan import Plan
from seamark.report.words import render_count

if TYPE_CHECKING:
    from seamark.change.actor import Actor
    from seamark.change.step import Step
    from seamark.context import ConnectSettings, Context
    from seamark.fleet.clusters import Clusters
    from seamark.fleet.positions.stores import OffsetStores
    from seamark.fleet.world import FleetWorld
    from seamark.model.topic import TopicStatus

# Records are written one after the other, each acknowledged: some milliseconds each, and a step has 20 s for sending.
_MOST_OFFSETS = 2000
_ELSEWHERE = ("producer.override.bootstrap.servers", "consumer.override.bootstrap.servers")
_POLICY = "cleanup.policy"


@dataclass(frozen=True, slots=True)
class _Way:
    """From which topic to which, and the config that goes with it."""

    source: str
    target: str
    present: Mapping[str, str]
    config: Mapping[str, str]
    topic: MakeOffsetsTopic | None
    count: int


class Relocations:
    """Plans another offsets topic for a source. Nothing is changed here; `fleet.apply` does it."""

    def __init__(
        self,
        context: Context,
        *,
        clusters: Clusters,
        world: Callable[[], FleetWorld],
        stores: Callable[[], OffsetStores],
        actor: Callable[[], Actor],
    ) -> None:
        self._context = context
        self._clusters = clusters
        self._world = world
        self._stores = stores
        self._actor = actor

    def plan(
        self,
        connector: Connector,
        topic: str | None,
        *,
        accepts_zombies: bool = False,
        wait_seconds: float | None = None,
    ) -> Planned:
        """Let a source keep its offsets in that topic; None is the one of its workers."""
        settings = self._clusters.settings(connector.cluster)
        self._refuse_other(connector, settings)
        workers = settings.offsets_topic
        if workers is None:
            raise self._context.missing(f"connect.{connector.cluster}.offsets_topic")
        source, target = connector.config.get(OWN_OFFSETS_TOPIC) or workers, topic or workers
        title = f"keep the offsets of {connector.owner} in {target}"
        if source == target:
            return Planned(self._build_plan(title, ()), steps=())
        way = self._find_way(connector, settings, source=source, target=target, workers=workers)
        steps = self._build_steps(connector, way, accepts_zombies=accepts_zombies, wait_seconds=wait_seconds)
        locks = build_locks(connector.name, [way.present, way.config], kind=connector.type, settings=settings)
        brokers = self._world().kafka
        plan = self._build_plan(
            title,
            steps,
            locks=(*locks, *((topic_lock(target),) if way.topic else ())),
            notes=(
                f"what {connector.name} holds in {source} stays there; an undo carries back what it holds then",
                *build_access_notes(steps, clusters=self._clusters, context=self._context, brokers=brokers),
                *build_lock_notes(settings, kinds=[connector.type]),
            ),
        )
        return Planned(plan, steps=steps, effects=_build_effects(connector, way))

    def _refuse_other(self, connector: Connector, settings: ConnectSettings) -> None:
        """Refuse what has no topic of its own, or one that nobody here can reach."""
        client = self._clusters.client(connector.cluster)
        client.read_capabilities().require(Capability.STOP, doing=f"carry the offsets of {connector.owner}")
        if connector.type is not ConnectorType.SOURCE or settings.offsets_file is not None:
            what = "a sink has a consumer group" if connector.type is ConnectorType.SINK else "its worker has a file"
            raise UnsupportedError(
                f"{connector.owner} can't have an offsets topic of its own; nothing was changed",
                cause=what if connector.type is not ConnectorType.UNKNOWN else "nobody can tell whether it is a source",
            )
        if any(connector.config.get(key) for key in _ELSEWHERE) or self._stores().has_own_partitioner(connector):
            raise UnsupportedError(
                f"the offsets of {connector.owner} can't be carried; nothing was changed",
                cause="its clients have a Kafka cluster or a partitioner of their own",
            )

    def _find_way(
        self, connector: Connector, settings: ConnectSettings, *, source: str, target: str, workers: str
    ) -> _Way:
        journal = (self._context.journal.topic, self._context.journal.heads_topic)
        if target in (settings.config_topic, settings.status_topic, *journal):
            raise RefusedError(f"{target} holds something else; nothing was changed", hint="give another topic")
        present = {key: value for key, value in connector.config.items() if key != "name"}
        config = {key: value for key, value in present.items() if key != OWN_OFFSETS_TOPIC}
        if target != workers:
            config[OWN_OFFSETS_TOPIC] = target
        name, cluster = connector.name, connector.cluster
        refuse_violations([(name, cluster, config)], self._context, present={(cluster, name): present})
        topic = self._find_topic(target, workers=workers)
        port = self._world().offsets(cluster, name)
        empty = TopicHolding(target, (), lambda _: 0)
        held = empty if topic else port.read_topic(target)
        carried = build_carried(port.read_topic(source), held, subject=f"connector/{connector.owner}")
        if len(carried) > _MOST_OFFSETS:
            raise UnsupportedError(
                f"{connector.owner} holds {len(carried)} offsets, too many to be carried at once; nothing was changed",
                cause=f"up to {_MOST_OFFSETS} are written in the time that a step has",
            )
        count = sum(record.value is not None for record in carried)
        return _Way(source, target, present, config, topic, count)

    def _find_topic(self, target: str, *, workers: str) -> MakeOffsetsTopic | None:
        """The step that makes the topic; None where it is there and fit for it."""
        reading = self._world().kafka().read_topics([target, workers])
        found = {topic.name: topic for topic in reading.items}
        for name, error in reading.failures.items():
            if name != target or not isinstance(error, NotFoundError):
                raise error
        if target not in found:
            like = found[workers]
            # As a worker would make it: like its own.
            return MakeOffsetsTopic(target, len(like.partitions), like.replication_factor, {_POLICY: "compact"})
        _refuse_deleting(found[target])
        return None

    def _build_steps(
        self, connector: Connector, way: _Way, *, accepts_zombies: bool, wait_seconds: float | None
    ) -> tuple[Step, ...]:
        cluster, name = connector.cluster, connector.name
        world = self._world()
        state = require_run_state(connector, world)
        carry = CarryOffsets(cluster, name, way.source, way.target)
        inner = surround(carry, quiet_seconds=find_quiet_seconds(self._context), accepts_zombies=accepts_zombies)
        inner = name_workers(inner, {carry.subject: find_workers(connector)})
        proof, *rest = pin_config(inner, {carry.subject: build_config_pin(connector.config, world)})
        shown, kept = split_secrets(way.config, way.present)
        held = tuple(Offset(found.partition, found.offset) for found in world.offsets(cluster, name).read_all())
        progress = build_progress(
            cluster,
            name,
            held,
            (),
            context=self._context,
            settings=self._clusters.settings(cluster),
            wait_seconds=wait_seconds,
            carried=True,
        )
        return (
            SetRunState(cluster, name, "STOPPED"),
            proof,
            *((way.topic,) if way.topic else ()),
            *rest,
            PutConfig(cluster, name, shown, keep=kept),
            *build_restore(connector, state),
            *(progress if state == "RUNNING" and held else ()),
        )

    def _build_plan(
        self, title: str, steps: Sequence[Step], *, locks: Sequence[str] = (), notes: Sequence[str] = ()
    ) -> Plan:
        return build_plan(
            title,
            steps,
            context=self._context.name,
            world=self._world(),
            actor=self._actor(),
            # One lane, also for the topic: nothing goes on where it could not be made.
            lane=lambda _: steps[0].subject,
            locks=locks,
            notes=notes,
        )


def _refuse_deleting(topic: TopicStatus) -> None:
    policy = topic.configs.get(_POLICY)
    if policy is not None and policy.value != "compact":
        raise RefusedError(
            f"topic {topic.name} does not keep offsets; nothing was changed",
            cause=f"its {_POLICY} is {policy.value}: what is older than its retention is deleted",
            hint="give another topic, or make it compact",
        )


def _build_effects(connector: Connector, way: _Way) -> tuple[Effect, ...]:
    tasks = len(connector.status.tasks) if connector.status else 0
    takes = f"stops, takes {render_count(way.count, 'offset')} to topic {way.target}, goes on"
    before, after = (config.get(OWN_OFFSETS_TOPIC) for config in (way.present, way.config))
    effect = Effect(
        Sign.CHANGE,
        f"connector/{connector.owner}",
        f"{takes}: nothing is read again" if way.count else f"{takes}: it begins anew, as it does now",
        (FieldChange(OWN_OFFSETS_TOPIC, before, after),),
        tasks=tasks,
    )
    if way.topic is None:
        return (effect,)
    made = way.topic
    copies = render_count(made.replication_factor or 0, "copy", "copies")
    words = f"create, compacted, {render_count(made.partitions or 0, 'partition')}, {copies}"
    return Effect(Sign.CREATE, made.subject, words), effect
