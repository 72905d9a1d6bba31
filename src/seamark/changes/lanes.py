"""The lanes of a plan, one after the other or several at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import groupby

from seamark.changes.pace import Pace
from seamark.changes.task import Task
from seamark.changes.walk import Walk
from seamark.core.refs import TOPIC, parse_subject

# For each one that sends. Looking and writing the intent take about as long as three requests that do not wait.
_READY = 4


class Lanes:
    """Walks a plan. A lane that fails leaves the others alone; where too many fail, none is begun any more.

    `run` does one task. `is_stopping` says whether somebody wants the change to end early.
    """

    def __init__(self, walk: Walk, *, pace: Pace, run: Callable[[Task], None], is_stopping: Callable[[], bool]) -> None:
        self._walk = walk
        self._pace = pace
        self._run = run
        self._is_stopping = is_stopping
        self._failed: set[str] = set()
        self._canary: frozenset[str] = frozenset()
        self._is_held_back = False
        self._is_broken_off = False

    def go(self) -> None:
        """Walk every lane to its end. What `run` raises ends the walk: nothing new is begun, then it is raised."""
        remaining = dict.fromkeys(task.lane for task in self._walk.remaining())
        self._canary = frozenset([lane for lane in remaining if not _is_topic(lane)][: self._pace.canary])
        for is_topic, phase in self._split(list(self._walk.tasks.lanes)):
            lanes = [lane for lane in phase if lane in remaining]
            self._go_through([lane for lane in lanes if lane in self._canary])
            self._go_through([lane for lane in lanes if lane not in self._canary])
            # What comes after topics needs them: a sink that runs without its topic would make another one.
            self._is_held_back |= is_topic and any(map(self._walk.is_failed, phase))

    def _split(self, lanes: list[str]) -> list[tuple[bool, list[str]]]:
        """The lanes in phases. Topics and the rest are not in hand at the same time, whichever comes first."""
        return [(is_topic, list(phase)) for is_topic, phase in groupby(lanes, key=_is_topic)]

    def _go_through(self, lanes: Sequence[str]) -> None:
        if self._pace.at_once == 1 or len(lanes) <= 1:
            chosen = set(lanes)
            # In the order of the plan, where lanes may be woven into each other.
            for task in [task for task in self._walk.remaining() if task.lane in chosen]:
                self._go_one(task)
            return
        # At the end of the block what is in hand is finished: no act is left without its outcome.
        with ThreadPoolExecutor(min(self._pace.at_once, len(lanes)), thread_name_prefix="seamark-lane") as pool:
            jobs = [pool.submit(self._go_lane, lane) for lane in lanes]
            try:
                _, going_on = wait(jobs, return_when=FIRST_EXCEPTION)
                self._is_broken_off = bool(going_on)
            except BaseException:
                self._is_broken_off = True
                raise
        for job in jobs:
            job.result()

    def _go_lane(self, lane: str) -> None:
        for task in self._walk.tasks.of_lane(lane):
            if self._is_broken_off:
                return
            if not self._walk.has_result(task):
                self._go_one(task)

    def _go_one(self, task: Task) -> None:
        if self._walk.is_due(task, winding_up=self._is_winding_up()):
            self._run(task)
            if self._walk.is_failed(task.lane):
                self._failed.add(task.lane)
        elif not task.fallback:
            self._walk.leave(task)

    def _is_winding_up(self) -> bool:
        # One failed canary is enough, for its fellows too.
        if self._is_stopping() or self._is_held_back or not self._canary.isdisjoint(self._failed):
            return True
        return self._pace.max_failures is not None and len(self._failed) > self._pace.max_failures


def _is_topic(lane: str) -> bool:
    # A lane is called by its subject.
    return parse_subject(lane).kind == TOPIC


class Writers:
    """Lets a few lanes at a time send something to one cluster, and as many more be ready to.

    Connect takes what waits at its door between two rebalances. Who only then begins to look and to write its intent
    misses that moment; who is ready does not, and what it saw is no older than one request takes.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._mutex = threading.Lock()
        self._gates: dict[str, threading.Semaphore] = {}

    @contextmanager
    def readying(self, subject: str) -> Iterator[None]:
        """Wait until it is time to look and to write the intent: soon it will be sent."""
        with self._gate(f"ready {_find_place(subject)}", limit=_READY * self._limit):
            yield

    @contextmanager
    def sending(self, subject: str) -> Iterator[None]:
        """Wait for a turn to send."""
        with self._gate(f"send {_find_place(subject)}", limit=self._limit):
            yield

    def _gate(self, name: str, *, limit: int) -> threading.Semaphore:
        with self._mutex:
            return self._gates.setdefault(name, threading.Semaphore(limit))


def _find_place(subject: str) -> str:
    """Return the kind and the Connect cluster of a subject."""
    ref = parse_subject(subject)
    return f"{ref.kind} {ref.cluster}"
