"""How long ago an entry was written, by clocks that the process that wrote it could not get wrong.

The time in an entry is that of the writer's wall clock, which may be off by hours. Two other clocks can be used: the
clock of the machine since its start, where the same machine resumes the change, and the clock of the brokers, which
give the heads of the Kafka journal their times. Without either, an entry counts as written at the takeover, and the
process that resumes the change waits the whole time.
"""

from __future__ import annotations

from typing import Any

from seamark.changes.actor import Actor
from seamark.changes.clock_mark import ClockMark
from seamark.changes.entry import Entry
from seamark.changes.journal import JournalWriter

_KEY = "clock"


def build_mark(actor: Actor) -> dict[str, Any]:
    """Return what an entry holds of the time at which it is written, for a process of the same machine."""
    mark = actor.mark()
    return {} if mark is None else {_KEY: mark.to_dict()}


def find_latest_write(entry: Entry, writer: JournalWriter, actor: Actor, *, taken_at: float, now: float) -> float:
    """Return when an entry was written at the latest, on the clock of this process.

    `taken_at` is when this process had taken the change over, and `now` the present time, both on that clock.
    """
    mark = actor.mark()
    age = 0.0 if mark is None else mark.measure_since(ClockMark.from_dict(entry.body.get(_KEY)))
    return min(taken_at - writer.measure_age(entry.number), now - age)
