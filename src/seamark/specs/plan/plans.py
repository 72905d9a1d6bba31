"""The plan from a spec: read every cluster once, compare, and say what the way means in operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from seamark.changes.environment import SnapshotWorld, World
from seamark.changes.journal import Journal
from seamark.changes.plan import Planned
from seamark.changes.planner import Planner
from seamark.changes.timing import plan_patiently
from seamark.connect.clusters import Clusters
from seamark.connectors.config import DesiredConnector, check_configs
from seamark.connectors.policy import refuse_violations
from seamark.core.refs import is_pipeline
from seamark.errors import RefusedError, UsageError
from seamark.kafka.api import KafkaPort
from seamark.pipelines.declared import check_landings
from seamark.specs.model import Spec
from seamark.specs.ownership import Claims, ClusterNames, read_claims
from seamark.specs.plan.assembly import WAIT_SECONDS, Assembly
from seamark.specs.plan.desired import build_desired, group_owners, refuse_references, select_owners, split_owner
from seamark.specs.plan.sections import PipelinePart, TopicPart, plan_pipelines, plan_topics
from seamark.specs.plan.survey import (
    Difference,
    Readings,
    build_survey,
    find_differences,
    find_surplus,
    read_clusters,
    shorten,
)

if TYPE_CHECKING:
    from seamark.context import Context
    from seamark.offsets.read.export import FormerOffsets


class SpecPlans:
    """Builds plans from specs. Everything is read, nothing is changed."""

    def __init__(
        self,
        context: Context,
        *,
        clusters: Clusters,
        world: World,
        planner: Planner,
        journal: Callable[[], Journal],
        build_kafka: Callable[[], KafkaPort],
        former: FormerOffsets,
        read_registered: Callable[[], Mapping[str, Any]],
        names: ClusterNames | None = None,
    ) -> None:
        self._names = names
        self._context = context
        self._clusters = clusters
        self._world = world
        self._planner = planner
        self._journal = journal
        self._build_kafka = build_kafka
        self._former = former
        self._read_registered = read_registered

    def plan(
        self,
        spec: Spec,
        *,
        title: str,
        prune: bool = False,
        names: Sequence[str] = (),
        adopt: bool = False,
        validate: bool = True,
        wait_seconds: float = WAIT_SECONDS,
    ) -> Planned:
        """The plan from what runs to what the spec says."""
        return self._ask(
            lambda: self._plan_once(
                spec, title=title, prune=prune, names=names, adopt=adopt, validate=validate, wait_seconds=wait_seconds
            )
        )

    def _plan_once(
        self,
        spec: Spec,
        *,
        title: str,
        prune: bool,
        names: Sequence[str],
        adopt: bool,
        validate: bool,
        wait_seconds: float,
    ) -> Planned:
        desired = build_desired(spec, self._clusters)
        check_landings(self._context, spec.landings)
        if prune and not desired:
            raise UsageError(
                "the spec names no connector, so --prune would delete everything",
                hint="say what shall go: seamark destroy -f PATH",
            )
        claims = read_claims(spec.id, self._journal, self._names)
        chosen = _choose(desired, claims.connectors, names, prune=prune)
        readings = self._read([*chosen, *(desired if prune else ())], wanted=chosen)
        if prune:
            chosen = select_owners({*desired, *claims.connectors, *readings.live}, names)
        world = SnapshotWorld(self._world, readings.connectors)
        wanted = {owner: connector for owner, connector in desired.items() if owner in chosen}
        # A reference that is not allowed is not even looked up, which comparing does.
        refuse_references(wanted.values(), self._context)
        changes = find_differences(wanted, readings.live, world)
        self._refuse_forbidden(changes)
        surplus = {
            owner for owner in (readings.live if prune else claims.connectors) if owner in chosen
        } - desired.keys()
        assembly = self._begin(claims, readings, world, wait_seconds=wait_seconds)
        going = self._leave_foreign(find_surplus(surplus, readings.live), claims, assembly)
        if not adopt:
            _refuse_foreign(changes, claims)
        topics = self._plan_topics(spec, assembly, is_whole=not names)
        unchanged = wanted.keys() - {difference.owner for difference in changes}
        survey = build_survey(readings, unchanged=unchanged, known=desired.keys() | claims.own.keys())
        owned = _find_owned(claims, desired, readings)
        pipelines = self._plan_pipelines(spec, assembly, claims, is_whole=not names, adopt=adopt)
        planned = assembly.build(
            title, (*changes, *going), owned=owned, survey=survey, topics=topics, pipelines=pipelines
        )
        if validate:
            notes = check_configs(planned.needs.configs, self._clusters, world)
            planned = replace(planned, plan=replace(planned.plan, notes=(*planned.plan.notes, *notes)))
        return planned

    def destroy(self, spec: Spec, *, title: str, names: Sequence[str] = (), adopt: bool = False) -> Planned:
        """The plan that deletes every connector of the spec that is there."""
        return self._ask(lambda: self._destroy_once(spec, title=title, names=names, adopt=adopt))

    def _ask(self, build: Callable[[], Planned]) -> Planned:
        """Build a plan, and build it anew where a rebalance hid what it needs to know."""
        return plan_patiently(build, self._world.clock)

    def _destroy_once(self, spec: Spec, *, title: str, names: Sequence[str], adopt: bool) -> Planned:
        desired = build_desired(spec, self._clusters)
        if not desired:
            raise UsageError("the spec names no connector", hint="give the files that name what shall go")
        claims = read_claims(spec.id, self._journal, self._names)
        chosen = select_owners(desired, names)
        readings = self._read(chosen, wanted=chosen)
        going = find_surplus(chosen, readings.live)
        if not adopt:
            _refuse_foreign(going, claims)
        assembly = self._begin(claims, readings, SnapshotWorld(self._world, readings.connectors))
        if spec.topics:
            assembly.notes.append(f"topics stay: {shorten([topic.name for topic in spec.topics])}")
        if spec.landings:
            assembly.notes.append(f"pipelines stay registered: {shorten([one.name for one in spec.landings])}")
        survey = build_survey(readings, unchanged=(), known=desired.keys())
        owned = _find_owned(claims, desired, readings)
        return assembly.build(title, going, owned=owned, survey=survey)

    def _plan_topics(self, spec: Spec, assembly: Assembly, *, is_whole: bool) -> TopicPart:
        """What the topics need. A plan for some connectors by name leaves topics alone, and says so."""
        if not spec.topics:
            return TopicPart()
        if is_whole:
            return plan_topics(spec.topics, reads=self._planner.open_reads(1))
        assembly.notes.append(f"topics are left out of a plan by names: {shorten([one.name for one in spec.topics])}")
        return TopicPart()

    def _plan_pipelines(
        self, spec: Spec, assembly: Assembly, claims: Claims, *, is_whole: bool, adopt: bool
    ) -> PipelinePart:
        """What must be registered. A plan for some connectors by name leaves pipelines alone, and says so."""
        if is_whole:
            return plan_pipelines(
                spec.landings,
                claims=claims,
                read=self._read_registered,
                reads=self._planner.open_reads(1),
                adopt=adopt,
            )
        if names := [one.name for one in spec.landings]:
            assembly.notes.append(f"pipelines are left out of a plan by names: {shorten(names)}")
        return PipelinePart()

    def _refuse_forbidden(self, changes: Sequence[Difference]) -> None:
        refuse_violations(
            ((found.name, found.cluster, found.config) for found in changes),
            self._context,
            present={(found.cluster, found.name): found.present.config for found in changes if found.present},
        )

    def _read(self, owners: Sequence[str] | set[str], *, wanted: set[str]) -> Readings:
        """Read the clusters of these owners. One that the context has no more can't be read, nor planned."""
        names = [name for name in group_owners(owners) if name in self._clusters.names]
        return read_clusters(self._clusters, sorted(names, key=self._clusters.names.index), wanted=sorted(wanted))

    def _begin(
        self, claims: Claims, readings: Readings, world: SnapshotWorld, *, wait_seconds: float = WAIT_SECONDS
    ) -> Assembly:
        return Assembly(
            self._context,
            clusters=self._clusters,
            world=world,
            readings=readings,
            planner=self._planner,
            claims=claims,
            build_kafka=self._build_kafka,
            former=self._former,
            wait_seconds=wait_seconds,
        )

    def _leave_foreign(
        self, surplus: Sequence[Difference], claims: Claims, assembly: Assembly
    ) -> tuple[Difference, ...]:
        """Never delete what another spec has by now."""
        if not surplus:
            return ()
        others = claims.others()
        kept = [difference for difference in surplus if difference.owner in others]
        for spec in sorted({others[difference.owner].spec for difference in kept}):
            owners = [difference.owner for difference in kept if others[difference.owner].spec == spec]
            assembly.notes.append(f"left alone, as spec {spec} has them now: {shorten(owners)}")
        return tuple(difference for difference in surplus if difference.owner not in others)


def _choose(
    desired: Mapping[str, DesiredConnector], own: Mapping[str, str], names: Sequence[str], *, prune: bool
) -> set[str]:
    """The connectors that the plan is about. What a prune takes is known only when the clusters were read."""
    known = {*desired, *own}
    return known if prune else select_owners(known, names)


def _refuse_foreign(differences: Sequence[Difference], claims: Claims) -> None:
    """Refuse to take a connector from another spec: each would put its own config back, again and again."""
    if not differences:
        return
    others = claims.others()
    taken = [difference for difference in differences if difference.owner in others]
    if not taken:
        return
    said = [f"{difference.owner}: spec {others[difference.owner].spec}" for difference in taken]
    places = [str(difference.wanted.place) for difference in taken if difference.wanted is not None]
    raise RefusedError(
        f"another spec has {len(taken)} of these connectors; nothing was changed",
        cause=shorten(said) + (f"; defined here in {shorten(list(dict.fromkeys(places)))}" if places else ""),
        hint="plan the spec that has them, take them out of one of the two, or take them over: --adopt",
        context={"connectors": ", ".join(difference.owner for difference in taken)},
    )


def _find_owned(claims: Claims, desired: Mapping[str, DesiredConnector], readings: Readings) -> dict[str, str]:
    """What the spec owns as the plan is made: what is gone, and is not wanted any more, is forgotten."""
    return {
        owner: change
        for owner, change in claims.own.items()
        if is_pipeline(owner)
        or owner in desired
        or owner in readings.live
        or split_owner(owner)[0] not in readings.connectors
    }
