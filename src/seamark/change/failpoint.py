"""Points at which a test can have this process killed or stopped.

`SEAMARK_FAILPOINT=after-intent:1:kill` kills the process when step 1 (from 0) has its intent in the journal. Nothing
happens without the variable, and a wrong one is an error: a typing mistake must not make a fault test pass.
"""

from __future__ import annotations

import os
import signal

from seamark.errors import UsageError

POINTS = (
    "after-open",
    "before-intent",
    "after-intent",
    "after-perform",
    "after-outcome",
    "before-close",
    "after-close",
)
_SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def reach(point: str, number: int = 0) -> None:
    """Be killed or stopped here if the environment says so."""
    wanted = os.environ.get("SEAMARK_FAILPOINT")
    if not wanted:
        return
    name, _, rest = wanted.partition(":")
    at, _, action = rest.partition(":")
    if name not in POINTS or not at.isdigit() or action not in _SIGNALS:
        raise UsageError(
            f"SEAMARK_FAILPOINT={wanted!r} is not POINT:NUMBER:kill|stop",
            hint=f"points: {', '.join(POINTS)}",
        )
    if (name, int(at)) == (point, number):
        # Once: a step that is written again comes here again.
        del os.environ["SEAMARK_FAILPOINT"]
        os.kill(os.getpid(), _SIGNALS[action])
