"""What stands around every write of offsets: a stop, the proof of it, and the run state back. Also in an undo."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from seamark.changes.patience import plan_patiently
from seamark.connect.connector import Connector
from seamark.connectors.read import find_run_state, read_run_state
from seamark.errors import RefusedError
from seamark.offsets.write.steps import QUIET_SECONDS

if TYPE_CHECKING:
    from seamark.changes.world import World
    from seamark.context import Context


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
        state = plan_patiently(read, world.clock)
    if state is None:
        raise RefusedError(
            f"nobody can tell whether {connector.owner} is meant to run; nothing was changed",
            cause="Connect has no status of it",
            hint=f"wait until its cluster has settled: seamark connectors show {connector.owner}",
        )
    return state


def find_workers(connector: Connector) -> tuple[str, ...]:
    """The workers that run a connector and its tasks."""
    status = connector.status
    if status is None:
        return ()
    found = {status.worker_id, *(task.worker_id for task in status.tasks)}
    return tuple(sorted(found - {""}))
