"""Who sent what, held against the journal at that very moment: invariant I1."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from seamark.model.entry import EntryKind
from tests.simulation.faults import Process, Violation
from tests.simulation.journal import Store, Stored

if TYPE_CHECKING:
    from seamark.change.timing import ChangeTiming
    from tests.simulation.clock import Timeline
    from tests.simulation.world import Spooled


class Ledger:
    """Checks every request that is sent."""

    def __init__(
        self, store: Store, spooled: Sequence[Spooled], timeline: Timeline, *, timing: ChangeTiming, cluster: str
    ) -> None:
        self.requests = 0
        self._store = store
        self._spooled = spooled
        self._timeline = timeline
        self._timing = timing
        self._prefix = f"connector/{cluster}/"
        self._used: set[int] = set()
        self._acted: set[tuple[str, int]] = set()

    def sent(self, process: Process, verb: str, name: str) -> None:
        """I1: no mutation without an earlier durable intent of the same step, by the holder of that time."""
        self.requests += 1
        subject = self._prefix + name
        for stored in reversed(self._store.changes.values()):
            if self._has_intent(stored, process, subject):
                return
        for number, record in enumerate(self._spooled):
            if record.process == process.name and record.subject == subject and number not in self._used:
                self._used.add(number)
                return
        raise Violation(f"I1: {process.name} sent {verb} {name} without a durable intent, or twice on one")

    def _has_intent(self, stored: Stored, process: Process, subject: str) -> bool:
        last = next(
            (number for number in range(len(stored.entries) - 1, -1, -1) if stored.writers[number] == process.name),
            None,
        )
        if last is None:
            return False
        entry = stored.entries[last]
        number = entry.body.get("step")
        # Its newest entry must be the intent, or a note that it still means to act on it.
        if entry.kind not in (EntryKind.INTENT, EntryKind.NOTE) or number is None:
            return False
        if stored.entries[0].body["plan"]["steps"][number]["subject"] != subject:
            return False
        is_holder = all(later.kind is not EntryKind.TAKEN for later in stored.entries[last + 1 :])
        age = self._timeline.now - datetime.fromisoformat(entry.at).timestamp()
        window = self._timing.quiet_seconds - self._timing.in_flight_seconds
        if not is_holder and age > window:
            raise Violation(f"I1: {process.name} was taken over and sent something {age:.1f} s after its entry")
        if (stored.change, last) in self._acted:
            return False
        self._acted.add((stored.change, last))
        return True
