"""How long the executor waits for what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from seamark.changes.environment import Clock
from seamark.errors import DeadlineError, RefusedError, SeamarkError, UnsettledError


@dataclass(frozen=True, slots=True)
class Pace:
    """How many lanes go at once, and how much may go wrong.

    `at_once` lanes are in hand at a time; most of them wait for what Connect does. `writers` of them at a time send
    something to one cluster. The first `canary` lanes go alone, and nothing follows where one of them fails. With more
    than `max_failures` failed lanes no other is begun. A plan with more than `max_changes` lanes is not begun at all.
    """

    at_once: int = 1
    writers: int = 1
    canary: int = 0
    max_failures: int | None = None
    max_changes: int | None = None

    def refuse_too_many(self, changes: int) -> None:
        """Refuse a plan that changes more than is allowed."""
        if self.max_changes is not None and changes > self.max_changes:
            raise RefusedError(
                f"the plan changes {changes} things, and {self.max_changes} are allowed; nothing was changed",
                hint="look at it again; if it is right, allow more: --max-changes",
            )


# Connect takes everything that waits at its door, then rebalances, which costs a heartbeat: 1.5 s here, else 3 s.
# So what counts is that somebody always waits there. On two workers and two busy cores 200 connectors were created by 8
# writers in 4 to 11 s, with many such pauses; by 16 in 4 to 7 s; by 32 in 4 to 6 s. The lanes beyond the writers get
# ready or wait for what they have sent.
FLEET_PACE = Pace(at_once=128, writers=16)


T = TypeVar("T")

# While a rebalance goes on, a paused connector shows the same as a running one, and a config is not told at all. On a
# quiet cluster that is over within seconds; longer than a minute is a cluster in trouble, and the operator's affair.
REBALANCE_SECONDS = 60.0
# Nobody is told that a plan waits; so it does for no longer than the client does for one answer.
PLAN_SECONDS = 20.0


def retry_while(
    ask: Callable[[], T],
    clock: Clock,
    *,
    seconds: float,
    every_seconds: float = 0.5,
    on: type[SeamarkError] = SeamarkError,
) -> T:
    """What `ask` gives. Where it fails so and asking again may help, it is asked again until the time is over."""
    deadline = clock.now() + seconds
    while True:
        try:
            return ask()
        except on as error:
            if not error.retryable or clock.now() >= deadline:
                raise
        clock.sleep(every_seconds)


def plan_patiently(ask: Callable[[], T], clock: Clock) -> T:
    """Return what planning reads with `ask`, and wait for the end of a rebalance.

    The client of changes gives up a request after the 20 s in which a write may be sent. Reads of a plan have no such
    limit: Connect answers 500 or 409 for as long as a rebalance is expected, and many changes at once keep it going.
    A cluster that doesn't answer at all is no `DeadlineError` and isn't waited for.
    """
    return retry_while(
        lambda: retry_while(ask, clock, seconds=PLAN_SECONDS, on=UnsettledError),
        clock,
        seconds=REBALANCE_SECONDS,
        on=DeadlineError,
    )


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
