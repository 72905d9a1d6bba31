"""Asking again where Connect can't tell just now."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from seamark.changes.world import Clock
from seamark.errors import DeadlineError, SeamarkError, UnsettledError

T = TypeVar("T")

# While a rebalance goes on, a paused connector shows the same as a running one, and a config is not told at all. On a
# quiet cluster that is over within seconds; longer than a minute is a cluster in trouble, and the operator's affair.
REBALANCE_SECONDS = 60.0
# Nobody is told that a plan waits; so it does for no longer than the client does for one answer.
PLAN_SECONDS = 20.0


def ask_again(
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
    return ask_again(
        lambda: ask_again(ask, clock, seconds=PLAN_SECONDS, on=UnsettledError),
        clock,
        seconds=REBALANCE_SECONDS,
        on=DeadlineError,
    )
