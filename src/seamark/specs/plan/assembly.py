"""Putting a plan together: lanes, locks, preconditions, lines and notes, each from the one reading."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from seamark.changes.effect import ClusterSurvey, Drift, Effect
from seamark.changes.environment import SnapshotWorld
from seamark.changes.images import find_sealed, find_typed, split_secrets
from seamark.changes.plan import Planned
from seamark.changes.planner import Planner
from seamark.connect.capability import Capability
from seamark.connect.clusters import Clusters
from seamark.connect.config import find_group
from seamark.connect.model import Connector
from seamark.connect.plugins import find_type
from seamark.connectors.actions import ApplyConnector, ConnectorSeen
from seamark.connectors.config import build_config
from seamark.connectors.plans import build_topic_note
from seamark.core.readings import fan_out
from seamark.core.refs import ConnectorType, parse_subject
from seamark.errors import NotFoundError, SeamarkError
from seamark.kafka.api import KafkaPort
from seamark.kafka.groups import GroupStatus, count_members
from seamark.lifecycle.plans import Leftovers
from seamark.specs.ownership import Claims
from seamark.specs.plan.sections import PipelinePart, TopicPart
from seamark.specs.plan.survey import Difference, Readings, build_drift, build_gone, shorten

if TYPE_CHECKING:
    from seamark.context import ConnectSettings, Context
    from seamark.offsets.read.export import FormerOffsets


# One call asks for all groups; a broker answers some hundred of them in well under a second.
_MOST_GROUPS = 500
# What stays behind is asked for connector by connector. Fifty answers, 16 at a time, are there within a second.
_MOST_DELETES = 50
# Kafka's word for a group that nobody ever joined.
_NO_GROUP = "DEAD"


class Consequences:
    """Looks at Kafka and Connect for what the reader must know. What can't be found out becomes a note."""

    def __init__(self, clusters: Clusters, *, build_kafka: Callable[[], KafkaPort], former: FormerOffsets) -> None:
        self._clusters = clusters
        self._build_kafka = build_kafka
        self._former = former
        self.notes: list[str] = []

    def build_creates(
        self, lines: Sequence[tuple[ApplyConnector, Sequence[Effect]]], kinds: Mapping[str, ConnectorType]
    ) -> dict[str, tuple[Effect, ...]]:
        """The lines of new connectors, by subject. `kinds` says by subject whether it will be a source or a sink."""
        groups = {
            action.subject: self._find_group(action)
            for action, _ in lines
            if kinds[action.subject] is ConnectorType.SINK
        }
        known = self._read_groups(sorted(set(groups.values())))
        begins = self._former.describe(
            [
                Connector(action.name, action.cluster, kinds[action.subject], action.config or {})
                for action, _ in lines
                if action.subject not in groups
            ]
        )
        return {
            action.subject: tuple(
                _build_create(
                    effect, action, _describe_begin(action.subject, groups=groups, known=known, begins=begins)
                )
                for effect in effects
            )
            for action, effects in lines
        }

    def note_deletes(self, connectors: Sequence[Connector]) -> None:
        """Say what deleted connectors leave behind."""
        if len(connectors) > _MOST_DELETES:
            self.notes.append(f"the offsets and groups of {len(connectors)} deleted connectors stay behind")
            return
        leftovers = Leftovers(self._build_kafka, self._former)
        calls = {connector.owner: partial(self._read_left, leftovers, connector) for connector in connectors}
        answers = fan_out(calls)
        for owner in calls:
            if owner in answers.failures:
                self.notes.append(f"{owner}: nobody tells what stays behind ({answers.failures[owner].message})")
            else:
                self.notes += answers.results[owner]

    def note_undo(self, found: Iterable[tuple[ApplyConnector, ConnectorSeen]]) -> None:
        """Say what can't be taken back, before it is done."""
        reasons: dict[str, list[str]] = {}
        for action, seen in found:
            why = action.find_obstacle(seen)
            if why:
                reasons.setdefault(why, []).append(f"{action.cluster}/{action.name}")
        self.notes += [f"can't be undone for {shorten(names)}: {because}" for because, names in reasons.items()]

    def _read_left(self, leftovers: Leftovers, connector: Connector) -> tuple[str, ...]:
        client, settings = self._clusters.client(connector.cluster), self._clusters.settings(connector.cluster)
        return leftovers.after_delete(connector, client=client, settings=settings)

    def _find_group(self, action: ApplyConnector) -> str:
        settings: ConnectSettings = self._clusters.settings(action.cluster)
        return find_group(action.name, action.config or {}, settings)

    def _read_groups(self, names: Sequence[str]) -> Mapping[str, GroupStatus | None] | None:
        """The groups that exist, by name; None where nobody tells, of one group or of all."""
        if not names:
            return {}
        if len(names) > _MOST_GROUPS:
            self.notes.append(f"{len(names)} sinks are new: seamark did not look which of their groups exist already")
            return None
        try:
            kafka = self._build_kafka()
            try:
                reading = kafka.read_groups(names)
            finally:
                kafka.close()
        except SeamarkError as error:
            self.notes.append(f"nobody tells which groups of the new sinks exist already ({error.message})")
            return None
        found: dict[str, GroupStatus | None] = {
            name: None for name, error in reading.failures.items() if not isinstance(error, NotFoundError)
        }
        return found | {group.name: group for group in reading.items if group.state != _NO_GROUP}


def _build_create(effect: Effect, action: ApplyConnector, begin: str) -> Effect:
    words = f"{effect.words}: {begin}" if begin else effect.words
    return replace(effect, words=words, tasks=_count_tasks(action))


def _describe_begin(
    subject: str,
    *,
    groups: Mapping[str, str],
    known: Mapping[str, GroupStatus | None] | None,
    begins: Mapping[str, str],
) -> str:
    """Where a new connector begins: a sink by its group, a source by the offsets of its name."""
    group = groups.get(subject)
    if group is None:
        return begins.get(parse_subject(subject).owner, "")
    return "" if known is None else _describe(group, known)


def _describe(group: str, known: Mapping[str, GroupStatus | None]) -> str:
    if group not in known:
        return f"begins anew, no group {group}"
    found = known[group]
    if found is None:
        return f"nobody tells whether group {group} exists"
    members = f", {count_members(found.members)}" if found.members else ""
    return f"goes on from the committed offsets of group {group} ({found.state}{members})"


def _count_tasks(action: ApplyConnector) -> int:
    """How many tasks a new connector starts at most, as nobody knows how many its plugin makes."""
    limit = (action.config or {}).get("tasks.max", "1")
    return int(limit) if action.state == "RUNNING" and limit.isdecimal() else 0


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
