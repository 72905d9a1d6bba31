"""How long the executor waits, and how many step sequences it runs at once, and in groups of how many."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from seamark.changes.environment import Clock, Environment
from seamark.core.refs import Port
from seamark.core.strict_json import read_count, read_object, read_optional_count
from seamark.errors import DeadlineError, RefusedError, SeamarkError, UnsettledError, UsageError

if TYPE_CHECKING:
    from seamark.context import PaceSettings


@dataclass(frozen=True, slots=True)
class Pace:
    """How many step sequences run at once, and how many may fail.

    `at_once` sequences run concurrently; most of them wait for Connect. `writers` of them send requests to one Connect
    cluster at the same time. The first `canary` sequences run alone, and if one of them fails, no others begin. After
    more than `max_failures` failed sequences, no others begin. A plan with more than `max_changes` sequences is
    refused. With `wait_stable`, sequences run in groups of `at_once`, and a group begins only while the workers are
    stable.
    """

    at_once: int = 1
    writers: int = 1
    canary: int = 0
    max_failures: int | None = None
    max_changes: int | None = None
    wait_stable: bool = False

    def __post_init__(self) -> None:
        if self.canary < 0 or (self.max_failures or 0) < 0:
            raise UsageError(f"invalid limits of a change: canary {self.canary}, max_failures {self.max_failures}")

    def build_limits(self, sequences: int) -> dict[str, Any] | None:
        """Return the limits of a change with so many step sequences, as the journal keeps them; None without limits."""
        if not self.canary and self.max_failures is None:
            return None
        most = None if self.max_failures is None else min(self.max_failures, sequences)
        return {"canary": min(self.canary, sequences), "max_failures": most}

    def keep(self, limits: Any, *, sequences: int) -> Pace:
        """Return the pace with the limits that `build_limits` returned for so many step sequences.

        Raises:
            UsageError: they are something else.
        """
        what = "the limits of a change"
        found = read_object(limits, keys=("canary", "max_failures"), what=what)
        canary = read_count(found["canary"], what=what)
        most = read_optional_count(found["max_failures"], what=what)
        if max(canary, most or 0) > sequences:
            raise UsageError(f"{what} can't be read", cause=f"the change has only {sequences} step sequences")
        return replace(self, canary=canary, max_failures=most)

    def slow(self, pace: PaceSettings | None) -> Pace:
        """Return the pace of a plan that was made with these settings (`Plan.pace`)."""
        if pace is None:
            return self
        return replace(self, at_once=min(self.at_once, pace.parallel), wait_stable=pace.wait_stable)

    def limit(self, most_at_once: int) -> Pace:
        """Return the pace of a plan that limits itself (`Plan.most_at_once`): the first failure stops the rest."""
        if not most_at_once:
            return self
        return replace(self, at_once=min(self.at_once, most_at_once), max_failures=0)

    def refuse_too_many(self, changes: int) -> None:
        """Refuse a plan with more changes than allowed."""
        if self.max_changes is not None and changes > self.max_changes:
            raise RefusedError(
                f"the plan has {changes} changes, more than the limit of {self.max_changes}; no changes were made",
                hint="review the plan; to allow more changes: --max-changes N",
            )


# Connect processes all waiting requests, then rebalances, which costs a heartbeat: 1.5 s here, otherwise 3 s. So a
# request should always be waiting. On two workers and two busy cores, 8 writers created 200 connectors in 4 to 11 s,
# with many such pauses; 16 writers in 4 to 7 s; 32 writers in 4 to 6 s. The sequences beyond the writers prepare their
# request or wait for the effect of the last one.
FLEET_PACE = Pace(at_once=128, writers=16)


@dataclass(frozen=True, slots=True)
class GroupReading:
    """What was read of the workers of a Connect cluster: why they are not stable, "" if nothing shows that.

    `state` is equal in two readings if no connector, task or worker has changed between them.
    """

    problem: str
    state: Hashable = None


WORKER_GROUP: Port[Callable[[str], GroupReading]] = Port("read_worker_group")
"""Reads the workers of a Connect cluster."""

# A worker learns of a rebalance with its next heartbeat, 3 s by default (`heartbeat.interval.ms`). So a group that
# looks the same for longer has no rebalance ahead because of an earlier change.
STABLE_SECONDS = 4.0
# The tasks of a lost worker are assigned to others after 5 minutes (`scheduled.rebalance.max.delay.ms`).
_LONGEST_UNSTABLE_SECONDS = 360.0
_GROUP_LOOK_SECONDS = 1.0


def await_stable(
    world: Environment, cluster: str, *, is_stopping: Callable[[], bool], report: Callable[[str], None]
) -> None:
    """Wait until the workers of a Connect cluster have been stable for a time, or until the change is to end.

    Raises:
        DeadlineError: they were not, for longer than the tasks of a lost worker stay unassigned.
    """
    clock, read = world.clock, world.use(WORKER_GROUP)
    deadline = clock.now() + _LONGEST_UNSTABLE_SECONDS
    last: GroupReading | None = None
    since = clock.now()
    while not is_stopping():
        found = read(cluster)
        now = clock.now()
        if found.problem or found != last:
            if found.problem and (last is None or found.problem != last.problem):
                report(f"waiting until the workers of {cluster} are stable: {found.problem}")
            since = now
        elif now - since >= STABLE_SECONDS:
            return
        if now >= deadline:
            raise DeadlineError(
                f"the workers of {cluster} were not stable within {_LONGEST_UNSTABLE_SECONDS:.0f} s; "
                "no further changes were begun",
                cause=found.problem or "connectors, tasks or workers keep changing",
                hint="find the cause with seamark doctor, then apply the rest; to continue anyway: --no-wait-stable",
            )
        last = found
        clock.sleep(_GROUP_LOOK_SECONDS)


T = TypeVar("T")

# During a rebalance, a paused connector looks like a running one, and configs can't be read at all. On a quiet Connect
# cluster that ends within seconds; if it takes longer than a minute, the operator has to examine the Connect cluster.
REBALANCE_SECONDS = 60.0
# No progress is shown while planning waits; so it waits no longer than the client does for one answer.
PLAN_SECONDS = 20.0


def retry_while(
    ask: Callable[[], T],
    clock: Clock,
    *,
    seconds: float,
    every_seconds: float = 0.5,
    on: type[SeamarkError] = SeamarkError,
) -> T:
    """Return the result of `ask`; retry a retryable error of type `on` until the time limit."""
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
    limit: Connect answers 500 or 409 for as long as a rebalance is expected, and many concurrent changes prolong it. A
    Connect cluster that doesn't respond at all doesn't raise a `DeadlineError`, so planning doesn't wait for it.
    """
    return retry_while(
        lambda: retry_while(ask, clock, seconds=PLAN_SECONDS, on=UnsettledError),
        clock,
        seconds=REBALANCE_SECONDS,
        on=DeadlineError,
    )


# The limit from the confirmation of an intent to the first byte of its request. A rebalance mostly ends within it.
SEND_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class ChangeTiming:
    """Times of the executor, in seconds.

    `in_flight` is how long a sent request may still take effect without an answer: Connect's REST API gives up after 90
    s, a fixed number, and what it began may end until then. `begin` is how long after its entry a step may begin to
    act; a process that was suspended longer checks the journal first. `send` is the time from there to the first byte
    of the last attempt of its request: an absolute deadline, which includes everything that the step reads in between.
    `shows` is how long the effect of a request may stay invisible to readers: a worker reads the status topic and its
    own snapshot of the config topic with a delay. `foreign` is how long a state that is neither before nor after must
    last until it is accepted. `rebalance` is how long Connect may be unable to report its state before anything is
    begun.
    """

    in_flight_seconds: float = 90.0
    # An entry and the first byte of its request are milliseconds apart; 5 s indicate an overloaded machine or a
    # suspended process.
    begin_seconds: float = 5.0
    send_seconds: float = SEND_SECONDS
    shows_seconds: float = 10.0
    foreign_seconds: float = 3.0
    look_seconds: float = 0.5
    rebalance_seconds: float = REBALANCE_SECONDS

    @property
    def quiet_seconds(self) -> float:
        """How long after its entry a request can still take effect.

        Including the time until every effect is visible, each outcome is known 125 s after the entry.
        """
        return self.begin_seconds + self.send_seconds + self.in_flight_seconds


def build_timing(in_flight_seconds: float) -> ChangeTiming:
    """Build the times for a context's `in_flight_timeout`: at least 90 s keeps the other defaults, less shortens them.

    Less is for tests. The lower bounds are what a rebalance and a slow machine still need on two cores.
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
