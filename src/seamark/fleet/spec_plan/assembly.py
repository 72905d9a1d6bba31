"""Putting a plan together: lanes, locks, preconditions, lines and notes, each from the one reading."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from seamark.change.actor import Actor
from seamark.change.image import find_sealed
from seamark.change.locks import cluster_lock
from seamark.change.precondition import build_precondition
from seamark.change.snapshot import SnapshotWorld
from seamark.connect.capability import Capability
from seamark.fleet.clusters import Clusters
from seamark.fleet.connector_life.config import build_config
from seamark.fleet.connector_life.leftovers import build_topic_note
from seamark.fleet.connector_life.plugin_type import find_type
from seamark.fleet.effects import Look, build_effect
from seamark.fleet.lock_names import build_lock_notes, build_locks
from seamark.fleet.ownership import Claims
from seamark.fleet.planned import Planned
from seamark.fleet.ports import KafkaPort
from seamark.fleet.spec_plan.consequences import Consequences
from seamark.fleet.spec_plan.difference import Difference
from seamark.fleet.spec_plan.drift import build_drift, build_gone
from seamark.fleet.spec_plan.lanes import STABLE_SECONDS, WAIT_SECONDS, LaneStep, build_lane
from seamark.fleet.spec_plan.pipelines import PipelinePart
from seamark.fleet.spec_plan.survey import Readings
from seamark.fleet.spec_plan.topics import TopicPart
from seamark.model.connector import ConnectorType
from seamark.model.effect import ClusterSurvey, Drift, Effect, Sign
from seamark.model.plan import Plan

if TYPE_CHECKING:
    from seamark.context import Context
    from seamark.fleet.positions.former import FormerOffsets

# No real request is done within this. Where a context says so, its servers are made up, and so is the time.
_MADE_UP_SECONDS = 1.0


class Assembly:
    """One plan in the making."""

    def __init__(
        self,
        context: Context,
        *,
        clusters: Clusters,
        world: SnapshotWorld,
        readings: Readings,
        actor: Actor,
        claims: Claims,
        build_kafka: Callable[[], KafkaPort],
        former: FormerOffsets,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self._context = context
        self._clusters = clusters
        self._world = world
        self._readings = readings
        self._actor = actor
        self._claims = claims
        self._wait_seconds = wait_seconds
        self._consequences = Consequences(clusters, build_kafka=build_kafka, former=former)
        self._kinds: dict[tuple[str, str], ConnectorType] = {}
        self.notes: list[str] = []

    def build(
        self,
        title: str,
        differences: Sequence[Difference],
        *,
        owned: Mapping[str, str],
        survey: tuple[ClusterSurvey, ...],
        topics: TopicPart | None = None,
        pipelines: PipelinePart | None = None,
    ) -> Planned:
        """The plan that ends these differences. What is done to topics comes first, and what is registered last."""
        topics, pipelines = topics or TopicPart(), pipelines or PipelinePart()
        beside = (*topics.looks, *pipelines.looks)
        self._check_states(differences)
        applied = self._claims.read_applied(difference.owner for difference in differences)
        drifts = self._find_drifts(differences, applied)
        lanes = [self._build_lane(difference, applied.get(difference.owner)) for difference in differences]
        looks = [self._look(lane, difference) for lane, difference in zip(lanes, differences, strict=True)]
        effects = self._build_effects(differences, looks)
        steps = [*(LaneStep(look.step) for look in topics.looks), *(found for lane in lanes for found in lane)]
        steps += (LaneStep(look.step) for look in pipelines.looks)
        plan = Plan(
            title=title,
            context=self._context.name,
            made_at=self._actor.timestamp(),
            made_by=self._actor.name,
            steps=tuple(found.to_data() for found in steps),
            locks=tuple(sorted({*self._build_locks(differences), *topics.locks, *pipelines.locks})),
            preconditions=tuple(build_precondition(look.step, look.intent) for look in (*beside, *looks)),
            notes=(
                *self._build_journal_notes(),
                *self.notes,
                *topics.notes,
                *pipelines.notes,
                *self._consequences.notes,
            ),
            spec=self._claims.build_field(owned),
        )
        shown = (*map(build_effect, topics.looks), *effects, *map(build_effect, pipelines.looks))
        return Planned(plan, steps=tuple(found.step for found in steps), effects=shown, drifts=drifts, survey=survey)

    def _build_lane(self, difference: Difference, applied: Mapping[str, object] | None) -> tuple[LaneStep, ...]:
        wanted = difference.wanted
        return build_lane(
            difference.cluster,
            difference.name,
            present=difference.present,
            config=None if wanted is None else build_config(difference.name, difference.config),
            state="" if wanted is None else wanted.state,
            # What the spec once gave as a reference is a secret, also where its key does not say so.
            secret=find_sealed(_config_of(applied)),
            wait_seconds=self._wait_seconds,
            stable_seconds=self._stable_seconds,
            revealed=difference.revealed,
        )

    @property
    def _stable_seconds(self) -> float:
        in_flight = self._context.journal.in_flight_seconds
        return STABLE_SECONDS if in_flight >= _MADE_UP_SECONDS else in_flight / 10

    def _look(self, lane: Sequence[LaneStep], difference: Difference) -> Look:
        """What the first step finds: it stands for the lane, as the others find what it leaves."""
        status = difference.present.status if difference.present else None
        step = lane[0].step
        return Look(step, step.intend(self._world), tasks=len(status.tasks) if status else 0)

    def _build_effects(self, differences: Sequence[Difference], looks: Sequence[Look]) -> tuple[Effect, ...]:
        news = [look for look in looks if build_sign(look) is Sign.CREATE]
        kinds = {difference.subject: self._find_kind(difference) for difference in differences}
        created = {effect.subject: effect for effect in self._consequences.build_creates(news, kinds)}
        gone = [found.present for found in differences if found.wanted is None and found.present is not None]
        self._consequences.note_deletes(gone)
        self._consequences.note_undo(looks)
        for found in differences:
            if found.present is not None and found.wanted is not None:
                self._consequences.notes += build_topic_note(found.present, found.config)
        return tuple(created.get(look.step.subject) or build_effect(look) for look in looks)

    def _find_drifts(
        self, differences: Sequence[Difference], applied: Mapping[str, Mapping[str, object]]
    ) -> tuple[Drift, ...]:
        found: list[Drift] = []
        for difference in differences:
            change = self._claims.own.get(difference.owner)
            if change is None or difference.owner not in applied or difference.owner in self._claims.others():
                continue
            if difference.present is None:
                found.append(build_gone(difference.subject, change=change))
                continue
            drift = build_drift(
                difference.subject,
                _config_of(applied[difference.owner]),
                live=difference.present.config,
                wanted=difference.revealed,
                change=change,
                world=self._world,
            )
            if drift is not None:
                found.append(drift)
        return tuple(found)

    def _build_locks(self, differences: Sequence[Difference]) -> tuple[str, ...]:
        """The lock of a whole cluster where several of its connectors are changed, else those of the one."""
        locks: set[str] = set()
        for cluster, found in _group(differences).items():
            settings = self._clusters.settings(cluster)
            if len(found) > 1:
                locks.add(cluster_lock(settings.group_id or settings.name))
            else:
                configs = [config for config in (_present_config(found[0]), found[0].revealed) if config]
                locks |= set(build_locks(found[0].name, configs, kind=self._find_kind(found[0]), settings=settings))
            kinds = {self._find_kind(difference) for difference in found}
            self.notes += build_lock_notes(settings, kinds=sorted(kinds))
        return tuple(sorted(locks))

    def _find_kind(self, difference: Difference) -> ConnectorType:
        if difference.present is not None:
            return difference.present.type
        plugin = difference.revealed.get("connector.class", "")
        known = difference.cluster, plugin
        if known not in self._kinds:
            self._kinds[known] = find_type(self._clusters.client(difference.cluster).read_plugins(), plugin)
        return self._kinds[known]

    def _check_states(self, differences: Sequence[Difference]) -> None:
        asked: set[str] = set()
        for found in differences:
            if found.present is not None or found.wanted is None or found.wanted.state in ("", "RUNNING"):
                continue
            if found.cluster not in asked:
                asked.add(found.cluster)
                capabilities = self._clusters.client(found.cluster).read_capabilities()
                doing = f"create connector {found.name} as {found.wanted.state}"
                capabilities.require(Capability.INITIAL_STATE, doing=doing)

    def _build_journal_notes(self) -> tuple[str, ...]:
        if not self._claims.trouble:
            return ()
        return (f"the journal can't be read ({self._claims.trouble}): deletes and drift can't be known",)


def build_sign(look: Look) -> Sign:
    """Whether a connector comes, changes or goes."""
    if look.intent.before is None:
        return Sign.CREATE
    return Sign.DELETE if look.intent.after is None else Sign.CHANGE


def _config_of(image: Mapping[str, object] | None) -> Mapping[str, object]:
    found = image["config"] if image else {}
    return found if isinstance(found, Mapping) else {}


def _present_config(difference: Difference) -> Mapping[str, str]:
    return difference.present.config if difference.present else {}


def _group(differences: Sequence[Difference]) -> dict[str, list[Difference]]:
    groups: dict[str, list[Difference]] = {}
    for difference in differences:
        groups.setdefault(difference.cluster, []).append(difference)
    return groups
