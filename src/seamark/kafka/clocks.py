"""The clocks of the Kafka journal's clients. A value, so that a simulation can have its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from seamark.core.deadline import read_clock


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clocks of one process.

    `now` measures timeouts. `since_boot` also counts while the machine sleeps.
    """

    now: Callable[[], float] = time.monotonic
    since_boot: Callable[[], float] = read_clock
    sleep: Callable[[float], None] = time.sleep
