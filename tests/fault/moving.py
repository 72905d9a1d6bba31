"""A child process that moves the offset of a file source, as one guarded change.

    python -m tests.fault.moving NAME FILE POSITION

Five steps in one lane: stop, prove, write, verify, run. It is what faults of offset changes are tried on.
"""

from __future__ import annotations

import sys

from seamark.change.locks import connector_lock
from seamark.change.steps.offsets import WriteOffsets
from seamark.change.steps.run_state import SetRunState
from seamark.change.steps.stopped import name_workers, surround
from seamark.fleet.moving.plans import find_workers
from seamark.fleet.planned import Planned
from seamark.model.offset import Offset
from seamark.model.plan import Plan
from tests.fault.guarded import run_planned

STEPS = 5
# Those that act: the others are only looks, which a crash does not hurt.
ACTING = (0, 2, 4)
# A devstack worker gives its tasks a second to end.
QUIET_SECONDS = 1.5


def build_planned(fleet, name, *, file, position):
    """The plan: stop, prove that it stands, write, verify, restore."""
    connector = fleet.connectors.one(f"connect/{name}")
    write = WriteOffsets("connect", name, (Offset({"filename": file}, {"position": position}),))
    inner = name_workers(surround(write, quiet_seconds=QUIET_SECONDS), {write.subject: find_workers(connector)})
    steps = (SetRunState("connect", name, "STOPPED"), *inner, SetRunState("connect", name, "RUNNING"))
    settings = fleet.context.connect["connect"]
    plan = Plan(
        title=f"move {name} to {position}",
        context=fleet.context.name,
        made_at="2026-01-01T00:00:00Z",
        made_by="moving",
        steps=tuple(step.to_data(lane=name, always=number == STEPS - 1) for number, step in enumerate(steps)),
        locks=(connector_lock(name, offsets_topic=settings.offsets_topic, workers=settings.group_id),),
    )
    return Planned(plan, steps=steps)


def main(name, file, position):
    return run_planned(lambda fleet: build_planned(fleet, name, file=file, position=int(position)))


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
