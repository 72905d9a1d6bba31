"""The points of a change at which a test can interrupt its own process.

The product never sets a hook and reads no variable for one, because an environment variable must not be able to kill or
stop a change. `tests.fault.failpoint` sets the hook in the child processes of tests.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

POINTS = (
    "after-open",
    "before-intent",
    "after-intent",
    "after-perform",
    "after-outcome",
    "before-close",
    "after-close",
)
# The points of a rotation of the journal's key. It has no steps.
KEY_POINTS = ("key-made", "key-recorded")

_hooks: list[Callable[[str, int], None]] = []


def set_hook(hook: Callable[[str, int], None] | None) -> None:
    """Set the function to call at every point, with the point's name and the step number; None removes it."""
    _hooks[:] = [] if hook is None else [hook]


def reach(point: str, number: int = 0) -> None:
    """Call the hook, if a test has set one."""
    for hook in _hooks:
        hook(point, number)


class Interrupt:
    """Records the first Ctrl-C instead of raising it; the second one raises. Only the main thread receives signals."""

    def __init__(self) -> None:
        self.is_set = False
        self._former: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._former = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._former is not None:
            signal.signal(signal.SIGINT, self._former)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        if self.is_set:
            raise KeyboardInterrupt
        self.is_set = True
