"""Who sent what, held against the journal at that very moment: invariant I1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from seamark.changes.journal import EntryKind
from seamark.core.time import find_deadline
from tests.simulation.faults import Process, Violation
from tests.simulation.journal import Store, Stored

if TYPE_CHECKING:
    from seamark.changes.timing import ChangeTiming
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
        # The entry on which each process sent its newest request; None for one of the spool.
        self._last: dict[str, tuple[Stored, int] | None] = {}
        # The longest time from an entry to the first byte of its request.
        self.longest = 0.0

    def sent(self, process: Process, verb: str, name: str, *, is_repeated: bool = False) -> None:
        """I1: no mutation without an earlier durable intent of the same step, by the holder of that time.

        And none later after it than `ChangeTiming` says, even of a holder that was not taken over: the wait of whoever
        takes over relies on that. `is_repeated` is a further attempt of a request that Connect has put off.
        """
        self.requests += not is_repeated
        if find_deadline() is None:
            raise Violation(f"I1: {process.name} sent {verb} {name} without a deadline")
        subject = self._prefix + name
        if is_repeated:
            self._check_again(process)
            return
        for number, record in enumerate(self._spooled):
            if record.process == process.name and record.subject == subject and number not in self._used:
                self._used.add(number)
                self._last[process.name] = None
                return
        for stored in reversed(self._store.changes.values()):
            number = self._find_intent(stored, process, subject)
            if number is not None and (stored.change, number) not in self._acted:
                self._acted.add((stored.change, number))
                self._last[process.name] = (stored, number)
                self._check_age(process, stored, number)
                return
        raise Violation(f"I1: {process.name} sent {verb} {name} without a durable intent, or twice on one")

    def _check_again(self, process: Process) -> None:
        found = self._last[process.name]
        if found is not None:
            self._check_age(process, *found)

    def _find_intent(self, stored: Stored, process: Process, subject: str) -> int | None:
        """The number of the newest entry of a process, if that is the intent of a step on a subject, or confirms it."""
        last = next(
            (number for number in range(len(stored.entries) - 1, -1, -1) if stored.writers[number] == process.name),
            None,
        )
        if last is None:
            return None
        entry = stored.entries[last]
        number = entry.body.get("step")
        if entry.kind not in (EntryKind.INTENT, EntryKind.NOTE) or number is None:
            return None
        return last if stored.entries[0].body["plan"]["steps"][number]["subject"] == subject else None

    def _check_age(self, process: Process, stored: Stored, number: int) -> None:
        age = self._timeline.now - stored.times[number]
        bound = self._timing.begin_seconds + self._timing.send_seconds
        self.longest = max(self.longest, age)
        if age > bound:
            raise Violation(f"I1: {process.name} sent something {age:.1f} s after its entry; {bound:g} s are allowed")
