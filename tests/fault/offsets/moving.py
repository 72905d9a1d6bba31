"""A child process that moves the offset of a file source, as one guarded change.

    python -m tests.fault.offsets.moving NAME FILE POSITION

Five steps in one lane: stop, prove, write, verify, run. It is what faults of offset changes are tried on.
"""

from __future__ import annotations

import sys

from seamark.core.offsets import Offset
from seamark.offsets.write.action import ChangeOffsets
from tests.fault.guarded import run_planned

STEPS = 5
# Those that act: the others are only looks, which a crash does not hurt.
ACTING = (0, 2, 4)


def build_planned(fleet, name, *, file, position):
    """The plan: stop, prove that it stands, write, verify, restore."""
    offsets = (Offset({"filename": file}, {"position": position}),)
    action = ChangeOffsets("connect", name, offsets, wait_seconds=0.0)
    planned = fleet._planner.plan(f"move {name} to {position}", [action])
    assert len(planned.steps) == STEPS, planned.steps
    return planned


def main(name, file, position):
    return run_planned(lambda fleet: build_planned(fleet, name, file=file, position=int(position)))


if __name__ == "__main__":
    import tests.fault.failpoint  # noqa: F401 - sets its hook

    raise SystemExit(main(*sys.argv[1:]))
