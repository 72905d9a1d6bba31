"""A new connector that does not begin at its beginning: created stopped, given its offsets, then run.

Workers before 3.7 create none that is stopped. There the offsets are written first, while nobody is there to use them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seamark.change.steps.offsets import WriteOffsets
from seamark.change.steps.run_state import SetRunState
from seamark.change.steps.stillness import build_kept
from seamark.change.steps.stopped import surround
from seamark.connect.capability import Capability
from seamark.errors import NotFoundError
from seamark.fleet.connector_life.leftovers import says_nothing_held
from seamark.fleet.connector_life.plugin_type import find_type
from seamark.fleet.moving.guards import find_quiet_seconds
from seamark.fleet.moving.made_anew import SavedTopics
from seamark.fleet.moving.plans import refuse_wrong
from seamark.fleet.moving.progress import build_progress
from seamark.fleet.moving.route import choose_route
from seamark.fleet.moving.shared_groups import read_shared
from seamark.fleet.moving.sink_targets import clamp_offsets
from seamark.fleet.moving.standing import refuse_blind, require_group_id
from seamark.fleet.moving.targets import read_owner_file
from seamark.fleet.planned import Planned
from seamark.fleet.positions.meaning import read_meaning
from seamark.fleet.positions.override_config import reads_elsewhere
from seamark.model.connector import Connector, ConnectorType
from seamark.model.effect import Effect
from seamark.report.words import render_count

if TYPE_CHECKING:
    from seamark.change.step import Step
    from seamark.change.world import World
    from seamark.context import Context
    from seamark.fleet.clusters import Clusters
    from seamark.fleet.connector_life.plans import ConnectorPlans
    from seamark.model.offset import Offset
    from seamark.offsets.meaning import Meaning

_STOPPED, _RUNNING = "STOPPED", "RUNNING"
# Nobody reads the positions of a hundred tables; all of them are in the plan's steps.
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class _Way:
    """The steps around a create, and what is said of them."""

    before: tuple[Step, ...]
    after: tuple[Step, ...]
    words: str
    notes: tuple[str, ...] = ()


def plan_create_with_offsets(
    plans: ConnectorPlans,
    name: str,
    given: Mapping[str, Any],
    path: Path,
    *,
    cluster: str | None,
    state: str,
    clusters: Clusters,
    context: Context,
) -> Planned:
    """The plan: create it stopped, write the offsets, verify them, and only then let it run.

    Where the offsets can't be written it stays stopped: run without them, it would begin at its beginning. Where it
    can't be created stopped, it is not created before they are written.
    """
    where, state = plans.choose_cluster(cluster), state.upper()
    client, settings = clusters.client(where), clusters.settings(where)
    is_first = client.read_capabilities().has(Capability.INITIAL_STATE)
    planned = plans.create(name, given, cluster=where, state=_STOPPED if is_first else state)
    (data,) = planned.plan.steps
    config = data.arguments["config"]
    kind = find_type(client.read_plugins(), config["connector.class"])
    connector = Connector(name, where, kind, config)
    saved = read_owner_file(path, owner=connector.owner)
    offsets = tuple(found for found in saved.offsets if found.offset is not None)
    if not offsets:
        raise NotFoundError(f"{path} holds no offsets of {name}")
    meaning = read_meaning(connector, client)
    refuse_wrong(connector, meaning, offsets)
    notes: list[str] = []
    if kind is ConnectorType.SINK:
        offsets, notes = _guard_sink(
            connector, offsets, saved.topics, world=plans.planner.world, clusters=clusters, context=context
        )
    quiet_seconds = find_quiet_seconds(context)
    if is_first:
        way = _write_after(connector, offsets, state=state, quiet_seconds=quiet_seconds)
    else:
        require_group_id(context, settings)
        way = _write_before(connector, offsets, world=plans.planner.world, quiet_seconds=quiet_seconds)
    seen = build_progress(where, name, offsets, (), context=context, settings=settings) if state == _RUNNING else ()
    after = (*way.after, *seen)
    run = plans.planner.build("", [step for step in way.after if isinstance(step, SetRunState)])
    plan = replace(
        planned.plan,
        title=f"create {name} with {render_count(len(offsets), 'offset')}",
        steps=(
            *(step.to_data(lane=data.lane) for step in way.before),
            data,
            *(step.to_data(lane=data.lane) for step in after),
        ),
        preconditions=(*planned.plan.preconditions, *run.plan.preconditions),
        notes=(*(note for note in planned.plan.notes if not says_nothing_held(name, note)), *notes, *way.notes),
    )
    words = f"{way.words} {render_count(len(offsets), 'offset')}, then {state}"
    effects = tuple(_explain(found, meaning, offsets, words=words) for found in planned.effects)
    return Planned(plan, steps=(*way.before, *planned.steps, *after), effects=effects)


def _guard_sink(
    connector: Connector,
    offsets: tuple[Offset, ...],
    topics: Mapping[str, str] | None,
    *,
    world: World,
    clusters: Clusters,
    context: Context,
) -> tuple[tuple[Offset, ...], list[str]]:
    """The offsets of a new sink within the log; refused where they are of other topics, or others are in its group."""
    kafka = world.kafka if context.has_brokers else None
    notes = SavedTopics(topics, kafka=kafka).refuse_other(connector.owner, offsets, connector)
    notes += read_shared(clusters).refuse_foreign(connector, offsets)
    # A sink on another Kafka cluster has its log there, and Connect alone can say whether its offsets are in it.
    if kafka is None or reads_elsewhere(connector):
        return offsets, notes
    clamped, said = clamp_offsets(kafka(), offsets)
    return clamped, [*said, *notes]


def _write_after(connector: Connector, offsets: Sequence[Offset], *, state: str, quiet_seconds: float) -> _Way:
    """It is created stopped, and Connect takes the offsets."""
    cluster, name = connector.cluster, connector.name
    inner = surround(WriteOffsets(cluster, name, tuple(offsets)), quiet_seconds=quiet_seconds)
    last: tuple[Step, ...] = () if state == _STOPPED else (SetRunState(cluster, name, state),)
    return _Way((), (*inner, *last), f"create, {_STOPPED}, gets")


def _write_before(connector: Connector, offsets: Sequence[Offset], *, world: World, quiet_seconds: float) -> _Way:
    """Its offsets are there before it is."""
    port = world.offsets(connector.cluster, connector.name, kept=connector)
    refuse_blind(port)
    held = port.read([found.partition for found in offsets])
    route = choose_route(connector, held, offsets, has_rest=False, complete=port.complete)
    write = replace(route.step, kept=build_kept(connector))
    note = "its offsets are written before it is created: its workers create none that is stopped"
    return _Way(surround(write, quiet_seconds=quiet_seconds), (), "gets", (note, *route.notes))


def _explain(effect: Effect, meaning: Meaning, offsets: Sequence[Offset], *, words: str) -> Effect:
    places = [meaning.describe(found.partition, found.offset) for found in offsets]
    outlook = [f"begins at {where}: {place}" for where, place in places[:_SHOWN]]
    if len(places) > _SHOWN:
        outlook.append(f"… and {render_count(len(places) - _SHOWN, 'partition')} more")
    return replace(effect, words=words, outlook=tuple(outlook))
