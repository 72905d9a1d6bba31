"""How long the executor waits for what."""

from __future__ import annotations

from dataclasses import dataclass

from seamark.changes.patience import REBALANCE_SECONDS

# The bound from the confirmation of an intent to the first byte of its request. A rebalance mostly ends within it.
SEND_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class ChangeTiming:
    """Times of the executor, in seconds.

    `in_flight` is how long a request that was sent may still be carried out without an answer: Connect's REST API gives
    up after 90 s, a fixed number, and what it began may end until then. `begin` is how long after its entry a step may
    begin to act; a process that slept longer asks the journal first. `send` is the time from there to the first byte of
    the last attempt of its request: an absolute deadline, with everything that the step reads in between. `shows` is
    how long something that was carried out may be hidden from a reader: a worker reads the status topic and its own
    snapshot of the config topic a little late. `foreign` is how long a state that is neither before nor after must be
    seen until it is believed. `rebalance` is how long Connect may be unable to tell what is there, before anything is
    begun.
    """

    in_flight_seconds: float = 90.0
    # From an entry to the first byte of its act are milliseconds; 5 s is a machine in trouble or a stopped process.
    begin_seconds: float = 5.0
    send_seconds: float = SEND_SECONDS
    shows_seconds: float = 10.0
    foreign_seconds: float = 3.0
    look_seconds: float = 0.5
    rebalance_seconds: float = REBALANCE_SECONDS

    @property
    def quiet_seconds(self) -> float:
        """Return how long after its entry nothing of an act can land any more.

        With the time until everything shows, every outcome is known 125 s after the entry.
        """
        return self.begin_seconds + self.send_seconds + self.in_flight_seconds


def build_timing(in_flight_seconds: float) -> ChangeTiming:
    """The times that go with a context's `in_flight`: 90 s and more leave the rest alone, less shortens it too.

    Less is for tests. The floors are what a rebalance and a slow machine still need on two cores.
    """
    normal = ChangeTiming()
    share = min(1.0, in_flight_seconds / normal.in_flight_seconds)
    return ChangeTiming(
        in_flight_seconds=in_flight_seconds,
        begin_seconds=max(1.0, normal.begin_seconds * share),
        send_seconds=max(8.0, normal.send_seconds * share),
        shows_seconds=max(2.0, normal.shows_seconds * share),
        foreign_seconds=max(1.0, normal.foreign_seconds * share),
    )
