"""A connector gets another name and takes its offsets along."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from seamark.change.steps.connector import CreateConnector, DeleteConnector
from seamark.change.steps.copy_offsets import CopyOffsets, VerifyCopied
from seamark.change.steps.run_state import SetRunState
from seamark.change.steps.stopped import ProveStopped
from seamark.fleet.lock_names import build_lock_notes, build_locks
from seamark.fleet.moving.guards import find_quiet_seconds, find_workers
from seamark.fleet.planned import Planned
from seamark.model.connector import Connector
from seamark.report.words import render_count

if TYPE_CHECKING:
    from seamark.change.step import Step
    from seamark.context import Context
    from seamark.fleet.clusters import Clusters
    from seamark.fleet.connector_life.plans import ConnectorPlans
    from seamark.model.plan import StepData

_STOPPED = "STOPPED"


def plan_carrying(
    plans: ConnectorPlans,
    connector: Connector,
    name: str,
    config: Mapping[str, str],
    *,
    state: str,
    held: int,
    notes: tuple[str, ...],
    clusters: Clusters,
    context: Context,
) -> Planned:
    """Stop the old one, create the new one stopped, copy and verify, let the new one run, delete the old one.

    Where anything fails before the new one runs, it is deleted and the old one goes on: nothing is read twice.
    """
    cluster, old = connector.cluster, connector.name
    settings = clusters.settings(cluster)
    acting: list[Step] = [
        SetRunState(cluster, old, _STOPPED),
        CreateConnector(cluster, name, config, state=_STOPPED),
        *([] if state == _STOPPED else [SetRunState(cluster, name, state)]),
        DeleteConnector(cluster, old),
    ]
    words = f"{render_count(held, 'offset')} go along, as {old} holds them when it has stopped"
    planned = plans.planner.build(
        f"rename {old} to {name}",
        acting,
        locks=(*plans.locks_of(connector), *build_locks(name, [config], kind=connector.type, settings=settings)),
        notes=(
            words.replace(" go ", " goes ").replace("holds them", "holds it") if held == 1 else words,
            f"an undo lets {old} go on from there too: what {name} reads until then is read again",
            *notes,
            *build_lock_notes(settings, kinds=[connector.type]),
        ),
    )
    quiet_seconds = find_quiet_seconds(context)
    proof = ProveStopped(cluster, old, find_workers(connector), quiet_seconds=quiet_seconds)
    copied: list[tuple[Step, bool]] = [
        (ProveStopped(cluster, name, quiet_seconds=quiet_seconds), False),
        (CopyOffsets(cluster, old, name), False),
        (VerifyCopied(cluster, old, name), False),
        (DeleteConnector(cluster, name), True),
        *([] if state == _STOPPED else [(SetRunState(cluster, old, state), True)]),
    ]
    steps: list[Step] = []
    data: list[StepData] = []
    lane = f"rename/{cluster}/{old}"

    def add(step: Step, *, fallback: bool = False) -> None:
        steps.append(step)
        data.append(replace(step.to_data(lane=lane), fallback=fallback))

    for step in planned.steps:
        if isinstance(step, CreateConnector):
            add(proof)
            add(step)
            for other, is_fallback in copied:
                add(other, fallback=is_fallback)
        else:
            add(step)
    return replace(planned, plan=replace(planned.plan, steps=tuple(data)), steps=tuple(steps))
