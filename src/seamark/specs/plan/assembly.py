"""Putting a plan together: lanes, locks, preconditions, lines and notes, each from the one reading."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from seamark.changes.effect import ClusterSurvey, Drift, Effect
from seamark.changes.images import find_sealed, find_typed, split_secrets
from seamark.changes.planned import Planned
from seamark.changes.planner import Planner
from seamark.changes.snapshot import SnapshotWorld
from seamark.connect.capability import Capability
from seamark.connect.clusters import Clusters
from seamark.connect.plugin_type import find_type
from seamark.connectors.actions import ApplyConnector, ConnectorSeen
from seamark.connectors.config import build_config
from seamark.connectors.notes import build_topic_note
from seamark.core.refs import ConnectorType
from seamark.kafka.api import KafkaPort
from seamark.specs.ownership import Claims
from seamark.specs.plan.consequences import Consequences
from seamark.specs.plan.difference import Difference
from seamark.specs.plan.drift import build_drift, build_gone
from seamark.specs.plan.pipelines import PipelinePart
from seamark.specs.plan.survey import Readings
from seamark.specs.plan.topics import TopicPart

if TYPE_CHECKING:
    from seamark.context import Context
    from seamark.offsets.read.former import FormerOffsets

# A rebalance, a restart and the first connection of a task; a database that does not answer is given up by then too.
WAIT_SECONDS = 60.0
# Most configs that can't work fail at once; some fail when the first rows are read.
STABLE_SECONDS = 3.0
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
        planner: Planner,
        readings: Readings,
        claims: Claims,
        build_kafka: Callable[[], KafkaPort],
        former: FormerOffsets,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self._context = context
        self._clusters = clusters
        self._world = world
        self._readings = readings
        self._planner = planner
        self._reads = planner.open_reads(1).over(world)
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
        self._check_states(differences)
        applied = self._claims.read_applied(difference.owner for difference in differences)
        drifts = self._find_drifts(differences, applied)
        connectors = [self._build_action(difference, applied.get(difference.owner)) for difference in differences]
        seen = [
            action.see(self._reads, difference.present)
            for action, difference in zip(connectors, differences, strict=True)
        ]
        effects = self._build_effects(differences, connectors, seen)
        actions = (*topics.steps, *connectors, *pipelines.steps)
        planned = self._planner.plan(
            title,
            actions,
            spec=self._claims.build_field(owned),
            reads=self._reads,
            known=dict(enumerate((*topics.seen, *seen, *pipelines.seen))),
        )
        notes = (
            *self._build_journal_notes(),
            *self.notes,
            *topics.notes,
            *pipelines.notes,
            *self._consequences.notes,
        )
        shown = (*topics.effects, *effects, *pipelines.effects)
        return replace(planned, plan=replace(planned.plan, notes=notes), effects=shown, drifts=drifts, survey=survey)

    def _build_action(self, difference: Difference, applied: Mapping[str, object] | None) -> ApplyConnector:
        # What the spec once gave as a reference is a secret, even where its key doesn't say so.
        secret = find_sealed(_config_of(applied))
        if difference.wanted is None:
            return ApplyConnector(difference.cluster, difference.name, None, secret=secret)
        config = build_config(difference.name, difference.config)
        kept: tuple[str, ...] = ()
        if difference.present is not None:
            held = {key: value for key, value in difference.present.config.items() if key != "name"}
            config, kept = split_secrets(
                config, held, find_typed(self._world, difference.cluster, held, difference.revealed)
            )
        return ApplyConnector(
            difference.cluster,
            difference.name,
            config,
            keep=kept,
            secret=secret,
            state=difference.wanted.state or "RUNNING",
            wait_seconds=self._wait_seconds,
            stable_seconds=self._stable_seconds,
        )

    @property
    def _stable_seconds(self) -> float:
        in_flight = self._context.journal.in_flight_seconds
        return STABLE_SECONDS if in_flight >= _MADE_UP_SECONDS else in_flight / 10

    def _build_effects(
        self, differences: Sequence[Difference], actions: Sequence[ApplyConnector], seen: Sequence[ConnectorSeen]
    ) -> tuple[Effect, ...]:
        lines = {action.subject: action.effects(one) for action, one in zip(actions, seen, strict=True)}
        news = [action for action, one in zip(actions, seen, strict=True) if one.present is None]
        kinds = {difference.subject: self._find_kind(difference) for difference in differences}
        created = self._consequences.build_creates([(action, lines[action.subject]) for action in news], kinds)
        gone = [found.present for found in differences if found.wanted is None and found.present is not None]
        self._consequences.note_deletes(gone)
        self._consequences.note_undo(zip(actions, seen, strict=True))
        for found in differences:
            if found.present is not None and found.wanted is not None:
                self._consequences.notes += build_topic_note(found.present, found.config)
        return tuple(line for subject, found in lines.items() for line in created.get(subject, found))

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
                cluster=difference.cluster,
                world=self._world,
            )
            if drift is not None:
                found.append(drift)
        return tuple(found)

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


def _config_of(image: Mapping[str, object] | None) -> Mapping[str, object]:
    found = image["config"] if image else {}
    return found if isinstance(found, Mapping) else {}
