"""Kill or stop this process at a point of a change, as `SEAMARK_FAILPOINT` says: `after-intent:1:kill`.

With `cut` the process goes on, behind a link that is cut as `SEAMARK_TEST_CUT` says: see `tests.fault.toxic.run_order`.

Only child processes of tests import this module; importing it sets the hook. A wrong value is an error, because a
typing mistake must not make a fault test pass.
"""

from __future__ import annotations

import os
import signal
from dataclasses import replace

from seamark.changes import actor
from seamark.changes.interruption import POINTS, set_hook
from seamark.errors import UsageError
from tests.fault.toxic import CUT_VARIABLE, run_order

VARIABLE = "SEAMARK_FAILPOINT"
_NAME = "SEAMARK_TEST_ACTOR"
_SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
_CUT = "cut"


def interrupt(point: str, number: int) -> None:
    """Kill or stop this process, or cut its link, if this is the point that the variable names."""
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return
    name, _, rest = wanted.partition(":")
    at, _, action = rest.partition(":")
    if name not in POINTS or not at.isdigit() or action not in (*_SIGNALS, _CUT):
        raise UsageError(
            f"{VARIABLE}={wanted!r} is not POINT:NUMBER:kill|stop|cut", hint=f"use one of {', '.join(POINTS)}"
        )
    if (name, int(at)) == (point, number):
        # Once: a step that is written again reaches the point again.
        del os.environ[VARIABLE]
        if action == _CUT:
            run_order(os.environ[CUT_VARIABLE])
        else:
            os.kill(os.getpid(), _SIGNALS[action])


set_hook(interrupt)


def _rename_actor(name: str) -> None:
    """Let all changes of this process be those of another actor."""
    find = actor.this_actor
    actor.this_actor = lambda *arguments: replace(find(*arguments), name=name)


if _NAME in os.environ:
    _rename_actor(os.environ[_NAME])
