"""A child process that stops a connector, changes its config and restores its run state, as one change.

    python -m tests.fault.guarded CLUSTER/NAME KEY VALUE

It is what faults are tried on: three steps in one lane, the last of which must run whatever happens. It says `opened`
when it has its lock.
"""

from __future__ import annotations

import sys

import seamark
from seamark.changes.action import Reads
from seamark.changes.locks import connector_lock
from seamark.changes.outcome import SilentProgress
from seamark.changes.plan import Plan, PlannedChange
from seamark.changes.planner import prepare
from seamark.connectors.run_state import SetRunState
from seamark.connectors.steps import PutConfig
from seamark.errors import SeamarkError
from tests.step_list import build_step_list

STEPS = 3


class Speaking(SilentProgress):
    """Says when the change is open."""

    def opened(self, change, *, steps):
        print("opened", change, steps, flush=True)


def build_planned(fleet, owner, *, key, value):
    """The plan: stop, put config, restore."""
    cluster, _, name = owner.partition("/")
    connector = fleet.connectors.get(owner)
    config = {k: v for k, v in connector.config.items() if k != "name"} | {key: value}
    steps = (
        SetRunState(cluster, name, "STOPPED"),
        PutConfig(cluster, name, config),
        SetRunState(cluster, name, "RUNNING"),
    )
    settings = fleet.context.connect[cluster]
    lock = connector_lock(name, workers=settings.group_id)
    action = build_step_list(name, [*steps[:2], (steps[2], True)], locks=(lock,))
    prepared = prepare([action], Reads(None))
    plan = Plan(
        title=f"set {key} of {name}",
        context=fleet.context.name,
        made_at="2026-01-01T00:00:00Z",
        made_by="guarded",
        identity=fleet._identities.read([cluster]),
    )
    return PlannedChange(prepared.fill(plan), prepared.steps, needs=prepared.needs)


def run_planned(build):
    """Apply the plan that `build` makes of a fleet, and say how it ended; gives the exit code."""
    try:
        with seamark.open() as fleet:
            result = fleet.apply(build(fleet), progress=Speaking())
    except SeamarkError as error:
        print(f"{type(error).__name__}: {error.message} | {error.cause} | {error.hint}", file=sys.stderr)
        return error.exit_code
    print(result.change, result.ending)
    for failure in result.failures.values():
        print(f"{failure.message} | {failure.cause} | {failure.hint}", file=sys.stderr)
    return 0 if result.is_done else 3


def main(owner, key, value):
    return run_planned(lambda fleet: build_planned(fleet, owner, key=key, value=value))


if __name__ == "__main__":
    import tests.fault.failpoint  # noqa: F401 - sets its hook

    raise SystemExit(main(*sys.argv[1:]))
