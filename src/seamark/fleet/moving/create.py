"""A new connector that does not begin at its beginning: created stopped, given its offsets, then run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seamark.change.steps.offsets import WriteOffsets
from seamark.change.steps.run_state import SetRunState
from seamark.change.steps.stopped import surround
from seamark.connect.capability import Capability
from seamark.errors import NotFoundError
from seamark.fleet.connector_life.plugin_type import find_type
from seamark.fleet.moving.guards import find_quiet_seconds
from seamark.fleet.moving.plans import refuse_wrong
from seamark.fleet.moving.progress import build_progress
from seamark.fleet.moving.sink_targets import clamp_offsets
from seamark.fleet.moving.targets import read_owner_file
from seamark.fleet.planned import Planned
from seamark.fleet.positions.meaning import read_meaning
from seamark.model.connector import Connector, ConnectorType
from seamark.model.effect import Effect
from seamark.report.words import render_count

if TYPE_CHECKING:
    from seamark.change.step import Step
    from seamark.context import Context
    from seamark.fleet.clusters import Clusters
    from seamark.fleet.connector_life.plans import ConnectorPlans
    from seamark.model.offset import Offset
    from seamark.offsets.meaning import Meaning

_STOPPED, _RUNNING = "STOPPED", "RUNNING"
_ELSEWHERE = "consumer.override.bootstrap.servers"
# Nobody reads the positions of a hundred tables; all of them are in the plan's steps.
_SHOWN = 5


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

    Where the offsets can't be written it stays stopped: run without them, it would begin at its beginning.
    """
    planned = plans.create(name, given, cluster=cluster, state=_STOPPED)
    (data,) = planned.plan.steps
    where, config = data.arguments["cluster"], data.arguments["config"]
    client = clusters.client(where)
    client.read_capabilities().require(Capability.WRITE_OFFSETS, doing=f"create {name} with offsets")
    kind = find_type(client.read_plugins(), config["connector.class"])
    connector = Connector(name, where, kind, config)
    offsets = tuple(found for found in read_owner_file(path, owner=connector.owner) if found.offset is not None)
    if not offsets:
        raise NotFoundError(f"{path} holds no offsets of {name}")
    meaning = read_meaning(connector, client)
    refuse_wrong(connector, meaning, offsets)
    notes: list[str] = []
    # A sink on another Kafka cluster has its log there, and Connect alone can say whether its offsets are in it.
    if kind is ConnectorType.SINK and _ELSEWHERE not in config:
        offsets, notes = clamp_offsets(plans.planner.world.kafka(), offsets)
    inner = surround(WriteOffsets(where, name, offsets), quiet_seconds=find_quiet_seconds(context))
    state = state.upper()
    last: tuple[Step, ...] = () if state == _STOPPED else (SetRunState(where, name, state),)
    run = plans.planner.build("", last)
    settings = clusters.settings(where)
    seen = build_progress(where, name, offsets, (), context=context, settings=settings) if state == _RUNNING else ()
    steps = (*planned.steps, *inner, *last, *seen)
    plan = replace(
        planned.plan,
        title=f"create {name} with {render_count(len(offsets), 'offset')}",
        steps=tuple(step.to_data(lane=data.lane) for step in steps[1:]),
        preconditions=(*planned.plan.preconditions, *run.plan.preconditions),
        notes=(*planned.plan.notes, *notes),
    )
    plan = replace(plan, steps=(data, *plan.steps))
    effects = tuple(_explain(found, meaning, offsets, state=state) for found in planned.effects)
    return Planned(plan, steps=steps, effects=effects)


def _explain(effect: Effect, meaning: Meaning, offsets: Sequence[Offset], *, state: str) -> Effect:
    places = [meaning.describe(found.partition, found.offset) for found in offsets]
    outlook = [f"begins at {where}: {place}" for where, place in places[:_SHOWN]]
    if len(places) > _SHOWN:
        outlook.append(f"… and {render_count(len(places) - _SHOWN, 'partition')} more")
    words = f"create, {_STOPPED}, gets {render_count(len(offsets), 'offset')}, then {state}"
    return replace(effect, words=words, outlook=tuple(outlook))
