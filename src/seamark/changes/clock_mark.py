"""Points in time on the clock of one machine, which processes of that machine can compare.

Wall clocks of two machines differ, and one can be set. The clock since the start of a machine can't be set, but its
numbers mean something only on that machine, and until it is restarted.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seamark.core.deadline import read_clock

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# Processes in another time namespace have the same boot ID and another CLOCK_BOOTTIME.
_TIME_NAMESPACE = Path("/proc/self/ns/time")


@dataclass(frozen=True, slots=True)
class ClockMark:
    """A point in time. `boot` names one start of one machine, `seconds` are those since it."""

    boot: str
    seconds: float

    def measure_since(self, earlier: ClockMark | None) -> float:
        """Return the seconds since an earlier mark; 0.0 where that is of another start or unknown."""
        if earlier is None or earlier.boot != self.boot:
            return 0.0
        return max(0.0, self.seconds - earlier.seconds)

    def to_dict(self) -> dict[str, Any]:
        """Return the mark as the journal stores it."""
        return {"boot": self.boot, "seconds": round(self.seconds, 3)}

    @classmethod
    def from_dict(cls, data: Any) -> ClockMark | None:
        """Read what `to_dict` returned; None for anything else."""
        if not isinstance(data, Mapping):
            return None
        boot, seconds = data.get("boot"), data.get("seconds")
        if not isinstance(boot, str) or not isinstance(seconds, int | float) or not math.isfinite(seconds):
            return None
        return cls(boot, float(seconds))


def read_mark() -> ClockMark | None:
    """Return the present point in time; None on systems that don't tell one start from another."""
    try:
        boot = _BOOT_ID.read_text().strip() + str(_TIME_NAMESPACE.readlink())
    except OSError:
        return None
    # The journal needs to compare it, and no more.
    return ClockMark(hashlib.sha256(boot.encode()).hexdigest()[:16], read_clock())
