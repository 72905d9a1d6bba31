"""One word for how a connector is: connector state and task states folded together."""

from __future__ import annotations

from enum import StrEnum

from seamark.connect.connector import ConnectorStatus, State


class Health(StrEnum):
    """How a connector is, as an operator would say it."""

    HEALTHY = "HEALTHY"
    DEGRADED = "DEGRADED"
    UNHEALTHY = "UNHEALTHY"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
    RESTARTING = "RESTARTING"
    UNASSIGNED = "UNASSIGNED"
    DESTROYED = "DESTROYED"
    UNKNOWN = "UNKNOWN"


def build_health(status: ConnectorStatus | None) -> Health:
    """Fold a status into one word.

    | connector   | tasks                         | word        |
    |-------------|-------------------------------|-------------|
    | none told   |                               | UNKNOWN     |
    | FAILED      | any                           | UNHEALTHY   |
    | RUNNING     | none                          | UNHEALTHY   |
    | RUNNING     | all RUNNING                   | HEALTHY     |
    | RUNNING     | all FAILED                    | UNHEALTHY   |
    | RUNNING     | some FAILED                   | DEGRADED    |
    | RUNNING     | none FAILED, some RESTARTING  | RESTARTING  |
    | RUNNING     | none FAILED, some UNASSIGNED  | UNASSIGNED  |
    | RUNNING     | anything else                 | DEGRADED    |
    | PAUSED      | some FAILED                   | DEGRADED    |
    | other words | any                           | that word   |

    A connector that says RUNNING while its tasks do not run is the commonest lie of Connect,
    so RUNNING is judged by the tasks. A RUNNING connector without tasks moves no data.
    """
    if status is None:
        return Health.UNKNOWN
    if status.state is State.FAILED:
        return Health.UNHEALTHY
    if status.state is State.RUNNING:
        return _running_health([task.state for task in status.tasks])
    if status.state is State.PAUSED and any(task.state is State.FAILED for task in status.tasks):
        return Health.DEGRADED
    return Health(status.state.value)


def _running_health(tasks: list[State]) -> Health:
    failed = tasks.count(State.FAILED)
    if failed == len(tasks):
        # Also the case of no task at all.
        return Health.UNHEALTHY
    if failed:
        return Health.DEGRADED
    if all(state is State.RUNNING for state in tasks):
        return Health.HEALTHY
    for state, word in ((State.RESTARTING, Health.RESTARTING), (State.UNASSIGNED, Health.UNASSIGNED)):
        if state in tasks:
            return word
    return Health.DEGRADED
