"""What stands around every write of offsets: a stop, the proof of it, and the run state back. Also in an undo."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from seamark.change.patience import PLAN_SECONDS, ask_again
from seamark.change.plan import Plan
from seamark.change.precondition import build_precondition
from seamark.change.steps.offsets import QUIET_SECONDS
from seamark.change.steps.read import find_run_state, read_run_state
from seamark.change.steps.run_state import SetRunState
from seamark.change.steps.stopped import ProveStopped, name_workers
from seamark.errors import NotFoundError, RefusedError, UnsettledError
from seamark.model.connector import Connector

if TYPE_CHECKING:
    from seamark.change.step import Step
    from seamark.change.world import World
    from seamark.context import Context
    from seamark.fleet.clusters import Clusters

_STOPPED = "STOPPED"


def find_quiet_seconds(context: Context) -> float:
    """How long a connector must stand still before its offsets are written."""
    # Who says that requests are over much sooner than Connect's own 90 s is a test, and so are its tasks.
    return min(QUIET_SECONDS, context.journal.in_flight_seconds / 5)


def require_run_state(connector: Connector, world: World) -> str:
    """The state that a connector is meant to be in, refused where nobody can tell it: it could not be restored.

    What a rebalance hides is waited for, not for long.

    Raises:
        UnsettledError: the rebalance goes on.
        RefusedError: Connect has no status of it.
    """
    state = None if connector.status is None else find_run_state(connector.status)
    if state is None:
        read = partial(read_run_state, world, connector.cluster, connector.name)
        state = ask_again(read, world.clock, seconds=PLAN_SECONDS, on=UnsettledError)
    if state is None:
        raise RefusedError(
            f"nobody can tell whether {connector.owner} is meant to run; nothing was changed",
            cause="Connect has no status of it",
            hint=f"wait until its cluster has settled: seamark connectors show {connector.owner}",
        )
    return state


def build_restore(connector: Connector, state: str) -> tuple[Step, ...]:
    """What brings a run state back after a stop; nothing where it was stopped."""
    return () if state == _STOPPED else (SetRunState(connector.cluster, connector.name, state),)


def find_workers(connector: Connector) -> tuple[str, ...]:
    """The workers that run a connector and its tasks."""
    status = connector.status
    if status is None:
        return ()
    found = {status.worker_id, *(task.worker_id for task in status.tasks)}
    return tuple(sorted(found - {""}))


def refresh_guards(
    plan: Plan, steps: Sequence[Step], *, clusters: Clusters, context: Context
) -> tuple[Plan, tuple[Step, ...]]:
    """A plan, made from the journal or a file, with the workers that run its connectors now."""
    found = _read_proven(steps, clusters)
    if not found:
        return plan, tuple(steps)
    quiet_seconds = find_quiet_seconds(context)
    named = tuple(
        replace(step, quiet_seconds=quiet_seconds) if isinstance(step, ProveStopped) else step
        for step in name_workers(steps, {subject: find_workers(one) for subject, one in found.items()})
    )
    data = tuple(
        replace(step.to_data(lane=old.lane, always=old.always), fallback=old.fallback, insists=old.insists)
        for step, old in zip(named, plan.steps, strict=True)
    )
    return replace(plan, steps=data), named


def stop_running(
    plan: Plan, steps: Sequence[Step], *, clusters: Clusters, world: World
) -> tuple[Plan, tuple[Step, ...]]:
    """The way back from a change of a stopped connector, which runs by now: it is stopped for it, and runs again."""
    stopped = {step.subject for step in steps if isinstance(step, SetRunState) and step.state == _STOPPED}
    # A connector that did not exist yet when its offsets were written can't be stopped.
    stopped |= {step.subject for step in steps if isinstance(step, ProveStopped) and step.kept is not None}
    found = {subject: one for subject, one in _read_proven(steps, clusters).items() if subject not in stopped}
    ends = {step.subject: number for number, step in enumerate(steps)}
    all_steps: list[Step] = []
    data, guards = [], list(plan.preconditions)
    for number, (step, old) in enumerate(zip(steps, plan.steps, strict=True)):
        connector = found.get(step.subject)
        state = None if connector is None or connector.status is None else find_run_state(connector.status)
        if connector is not None and state not in (None, _STOPPED) and isinstance(step, ProveStopped):
            stop = SetRunState(connector.cluster, connector.name, _STOPPED)
            guards.append(build_precondition(stop, stop.intend(world)))
            all_steps.append(stop)
            data.append(stop.to_data(lane=old.lane))
        all_steps.append(step)
        data.append(old)
        if connector is not None and state is not None and ends[step.subject] == number:
            back = build_restore(connector, state)
            all_steps += back
            data += [one.to_data(lane=old.lane, always=True) for one in back]
    return replace(plan, steps=tuple(data), preconditions=tuple(guards)), tuple(all_steps)


def _read_proven(steps: Sequence[Step], clusters: Clusters) -> dict[str, Connector]:
    """The connectors that are proven to have stopped, as they are now. One that the plan creates has no worker yet."""
    found: dict[str, Connector] = {}
    for step in steps:
        if isinstance(step, ProveStopped):
            with suppress(NotFoundError):
                found[step.subject] = clusters.client(step.cluster).read_connector(step.name)
    return found
