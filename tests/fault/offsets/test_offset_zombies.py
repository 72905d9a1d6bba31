"""The zombie source: a worker stands still with a task in it, its offsets are changed, and it goes on.

Nobody tells it in time that its task was taken from it. What it then stores would undo the change without a word.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from seamark.devstack.client import ask
from seamark.devstack.process import wait_until
from seamark.errors import DevstackError
from tests.fault.offsets.offset_lane import ASLEEP, Lane
from tests.integration.rest import call

# Up to three tries, beside neighbours.
pytestmark = [pytest.mark.offset_fault, pytest.mark.timeout(1200)]

# After which step the zombie wakes.
ORDERS = ("ended write", "ended verify")
TRIES = 3


class Sleeper:
    """One worker that is stopped and goes on."""

    def __init__(self, stack):
        self._folder = Path(stack.folder)
        self.name, self.address = "worker-2", stack.connect["connect"].urls[1].removeprefix("http://")

    def sleep(self):
        ask(self._folder, "stop", self.name)
        ASLEEP.add(f"http://{self.address}")

    def wake(self):
        if ASLEEP:
            ask(self._folder, "cont", self.name)
            ASLEEP.clear()


@pytest.fixture
def sleeper(own_stack):
    sleeper = Sleeper(own_stack)
    yield sleeper
    sleeper.wake()
    url = f"http://{sleeper.address}/connectors"
    wait_until(lambda: is_up(url), "the worker answered again", seconds=120)


def is_up(url):
    try:
        return call(url)[0] == 200
    except OSError:
        return False


@pytest.fixture
def make_lanes(own_stack, sleeper, tmp_path):
    """File sources whose tasks run on the worker that will sleep."""
    made = []

    def make(count):
        # Connect shares tasks out evenly; some more make up for where it does not.
        for _ in range(4):
            batch = [Lane(own_stack, tmp_path, kind="source") for _ in range(2 * count)]
            made.extend(batch)
            with ThreadPoolExecutor(len(batch)) as pool:
                list(pool.map(Lane.create, batch))
                places = list(pool.map(Lane.read_worker, made))
            found = [lane for lane, place in zip(made, places, strict=True) if place == sleeper.address]
            if len(found) >= count:
                return found[:count]
        raise AssertionError(f"of {len(made)} tasks less than {count} are with {sleeper.name}")

    yield make
    sleeper.wake()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(Lane.delete, made))


def await_handover(lanes, sleeper):
    """Until the other worker has the tasks: from then on the sleeper's are zombies."""
    for lane in lanes:
        wait_until(lambda lane=lane: lane.read_worker() != sleeper.address, f"{lane.name} was given away", seconds=120)


class Held:
    """Changes that wait until the worker has gone on, and whose zombies have stored what they read."""

    def __init__(self):
        self._ready = threading.Semaphore(0)
        self._woken = threading.Event()
        self.stored = set()

    def hold(self, lane):
        self._ready.release()
        assert self._woken.wait(300), "the worker went on"
        # The connector is stopped: nobody but the zombie can have stored this.
        end = lane.build_offset(lane.lines)
        # A worker that is slow to wake up may end its tasks before they store anything.
        with suppress(DevstackError):
            wait_until(lambda: lane.read_offset() == end, "the zombie stored it", seconds=30, every_seconds=0.2)
            self.stored.add(lane.name)

    def await_all(self, count):
        for _ in range(count):
            assert self._ready.acquire(timeout=300), "a change was held"

    def go_on(self):
        self._woken.set()


def check_refused(ended, *words):
    """Nothing was written, and it was told why."""
    assert not ended.is_done, ended
    assert "write" not in ended.outcomes, ended
    assert all(word in ended.said for word in words), ended


def test_zombie_is_prevented_or_seen_whenever_it_wakes(make_lanes, sleeper):
    """One worker sleeps under five changes.

    It falls asleep in the middle of the first, which is refused, or done when all are awake again. The second is made
    when others have its tasks. The other three accept it, and it wakes between the write and the verify, between the
    verify and the resume, and 5 s after the end. Where a zombie had no time to store anything the change is done,
    rightly, and that order is tried again.
    """
    seen = set()
    for _ in range(TRIES):
        seen |= run_orders(make_lanes(5), sleeper)
        if seen == set(ORDERS):
            return
    raise AssertionError(f"in {TRIES} tries zombies stored something in these orders alone: {seen}")


def run_orders(lanes, sleeper):
    """All five orders at once; gives the points at which a zombie stored something and was seen."""
    amid, planned, *others, late = lanes
    # Where the sleeper leads the workers, the stop was sent to it, and it stops the connector when it wakes. The others
    # must outlast the rebalances of its sleep and of their own stops: with patience a request is repeated for 20 s.
    for lane in lanes:
        lane.be_patient()
    held = Held()
    with ThreadPoolExecutor(len(lanes)) as pool:
        first = pool.submit(amid.change, hooks={"begun stop": sleeper.sleep})
        wait_until(lambda: ASLEEP or first.done(), "the worker fell asleep", seconds=120)
        await_handover(lanes[1:], sleeper)
        second = pool.submit(planned.change)
        runs = [
            pool.submit(lane.change_at, point, partial(held.hold, lane), assume_worker_down=True)
            for lane, point in zip(others, ORDERS, strict=True)
        ]
        last = pool.submit(late.change, assume_worker_down=True).result()
        check_refused(second.result(), "is not known to be alive: it may still write its offsets")
        held.await_all(len(others))
        # A line that the zombies have not read: when they wake up they have something to store.
        for lane in others:
            lane.give_more()
        time.sleep(5)
        sleeper.wake()
        held.go_on()
        ended = [run.result() for run in runs]
        if not first.result().is_done:
            check_refused(first.result())
    for lane, one in zip(others, ended, strict=True):
        check_seen(one) if lane.name in held.stored else check_done(one)
    # Whoever accepts a zombie has said so; the move stood when it was called done.
    check_done(last)
    for lane in lanes:
        lane.finish()
        lane.has_zombie = True
        lane.await_end()
    return {point for lane, point in zip(others, ORDERS, strict=True) if lane.name in held.stored}


def check_seen(ended):
    """It was written, and somebody wrote over it: that was told."""
    assert ended.has_written, ended
    assert not ended.is_done, ended
    assert "another process" in ended.said, ended


def check_done(ended):
    assert ended.is_done, ended
