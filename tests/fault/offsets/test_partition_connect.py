"""The tool is partitioned from Connect's REST API, at each request of a change of offsets.

Every connector has proxies of its own, so that all ways are tried at once. Each is cut when a stop, a write of offsets
or a resume is about to be sent, and healed some seconds later.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from tests.fault.offsets.offset_lane import Lane
from tests.fault.offsets.partition import (
    ANSWERS_LOST,
    REQUESTS_LOST,
    RESET,
    SILENCE,
    Bystander,
    Recorder,
    Sending,
    find_violations,
)
from tests.fault.toxic import DOWNSTREAM, Cut, Link, Toxiproxy

# The first of them waits for its servers too.
pytestmark = [pytest.mark.offset_fault, pytest.mark.timeout(900)]

# The requests of a change, and the steps that they belong to.
STEPS = {"stop": "stop", "offsets": "write", "resume": "restore"}
# How often a round is tried until the cut meets the request itself, and not a read before it.
TRIES = 4


@dataclass(frozen=True)
class Way:
    """A cut, and when it is healed. `arrives` says whether the request reaches Connect through it; None: either.

    One that `is_of_reads` begins with the step, before anything of it is read, and may be over when the request comes.
    """

    cut: Cut
    arrives: bool | None
    seconds: float = 5.0
    workers: int = 1
    is_of_reads: bool = False


WAYS = {
    "silence": Way(SILENCE, arrives=False),
    "requests lost": Way(REQUESTS_LOST, arrives=False),
    "answers lost": Way(ANSWERS_LOST, arrives=True),
    "reset": Way(RESET, arrives=False, seconds=2.0),
    # Within the JSON of a read: the head of an answer has some 190 bytes.
    "broken off": Way(Cut("limit_data", (DOWNSTREAM,), {"bytes": 240}), arrives=None, is_of_reads=True),
    # Longer than the 8 s within which a request must be sent here, and than the 3 s for which it may be under way.
    "late answers": Way(Cut("latency", (DOWNSTREAM,), {"latency": 9000}), arrives=True, seconds=12.0),
    "slow close": Way(Cut("slow_close", (DOWNSTREAM,), {"delay": 4000}), arrives=True),
    # One of two workers can't be reached; the other can. A request that the first may have got isn't sent to the other.
    "one worker": Way(SILENCE, arrives=None, seconds=8.0, workers=2),
}
LOSSLESS = ("latency", "slow_close")


@pytest.fixture(scope="module")
def recorder(own_stack):
    with Recorder(own_stack) as recorder:
        yield recorder


@pytest.fixture
def bystander(own_stack, recorder, tmp_path):
    lane = Lane(own_stack, tmp_path, kind="sink")
    lane.create()
    yield Bystander(lane)
    lane.delete()


@pytest.fixture
def lanes(own_stack, recorder, tmp_path):
    """A connector for each way, half of them sinks, half of them asking the second worker."""
    toxiproxy, lanes = Toxiproxy(own_stack.toxiproxy.api), {}
    with ExitStack() as exits, ThreadPoolExecutor(len(WAYS)) as pool:
        for number, (name, way) in enumerate(WAYS.items()):
            urls = own_stack.connect["connect"].urls[:: 1 if number % 2 else -1][: way.workers]
            doors = [toxiproxy.open_door(url) for url in urls]
            for door in doors:
                exits.callback(door.close)
            kind = "sink" if number % 2 else "source"
            lane = Lane(own_stack, tmp_path, kind=kind, urls=[door.url for door in doors])
            lanes[name] = lane, Link(own_stack.toxiproxy.api, [doors[0].name])
        list(pool.map(Lane.create, (lane for lane, _ in lanes.values())))
        yield lanes
        list(pool.map(Lane.delete, (lane for lane, _ in lanes.values())))


class Fault:
    """One cut of one link, healed by itself."""

    def __init__(self, link, way):
        self._link, self._way = link, way
        self._healer = None
        self.begun_at = self.healed_at = None

    def begin(self):
        self._link.note_bytes()
        self.begun_at = time.time()
        self._link.cut(self._way.cut)
        self._healer = threading.Thread(target=self._heal, daemon=True)
        self._healer.start()

    def _heal(self):
        time.sleep(self._way.seconds)
        self.healed_at = time.time()
        self._link.heal()

    def end(self):
        """Wait until it is over; gives the bytes that came in and were lost, by stream."""
        assert self._healer is not None, "the change never came to the point of the cut"
        self._healer.join(60)
        return self._link.count_bytes()


def run_round(lane, link, way, recorder, sending, *, verb):
    """One change with one cut; gives whether the cut met the request itself."""
    fault = Fault(link, way)
    since = len(recorder.read(lane))
    if way.is_of_reads:
        ended = lane.change("move", hooks={f"begun {STEPS[verb]}": fault.begin})
    else:
        with sending.act_before(verb, fault.begin):
            ended = lane.change("move")
    if fault.begun_at is None:
        # A rebalance hindered it before; then nothing was moved.
        assert not ended.is_done, ended
        assert lane.settle(ended)[0] is False, ended
        return False
    counted = fault.end()
    if way.cut.kind in LOSSLESS:
        assert counted[DOWNSTREAM][0] > 0, counted
    else:
        assert any(counted[stream][1] > 0 for stream in way.cut.streams), (counted, ended)
    moved, resumes = lane.settle(ended)
    sent = recorder.read(lane)[since:]
    # The journal says what Connect did: the answer that nobody heard too.
    is_written = any(one.verb == "offsets" and one.status is not None and one.status < 300 for one in sent)
    assert moved is is_written, (ended, sent)
    within = [one for one in sent if one.verb == verb and fault.begun_at <= one.at <= fault.healed_at]
    errors = read_errors(lane, ended)
    is_unknown = not within and "it is unknown whether this was done" in errors
    is_hit = {True: bool(within), False: is_unknown, None: True}[way.arrives]
    print(
        f"{verb}, {way.cut.kind} {way.cut.streams}: {ended.ending}, moved {moved}, {resumes} resumes, hit {is_hit}, "
        f"bytes (in, lost) {counted}, {errors}"
    )
    return is_hit


def read_errors(lane, ended):
    """What the journal holds of errors of a change."""
    change = next(one for one in lane.read_changes() if one.id == ended.change)
    return " / ".join(entry.body["error"]["message"] for entry in change.entries if "error" in entry.body)


def run_way(lane, link, way, recorder, sending):
    """All requests of one connector; gives how many rounds. A cut that missed its request is tried again."""
    rounds = 0
    for verb in STEPS:
        for _ in range(TRIES):
            rounds += 1
            if run_round(lane, link, way, recorder, sending, verb=verb):
                break
        else:
            raise AssertionError(f"{way.cut} missed the {verb} of {lane.name} {TRIES} times")
    return rounds


def test_cut_at_each_request_leaves_nothing_in_between(lanes, recorder, bystander, monkeypatch):
    sending = Sending(monkeypatch)
    with ThreadPoolExecutor(len(lanes)) as pool:
        runs = [pool.submit(run_way, lane, link, WAYS[name], recorder, sending) for name, (lane, link) in lanes.items()]
        rounds = [run.result() for run in runs]
    assert all(count >= len(STEPS) for count in rounds), rounds
    print(f"{sum(rounds)} changes")
    violations = [words for lane, _ in lanes.values() for words in find_violations(lane, recorder)]
    assert violations + bystander.find_changes() == []
    with ThreadPoolExecutor(len(lanes)) as pool:
        moved = [(lane, change) for lane, _ in lanes.values() if (change := find_moved(lane))]
        assert moved
        list(pool.map(lambda pair: pair[0].undo(pair[1]), moved))
    assert [words for lane, _ in lanes.values() for words in find_violations(lane, recorder)] == []


def find_moved(lane):
    """The newest change, if it is done: only that one can be undone without a doubt."""
    change = lane.read_changes()[-1]
    return change.id if change.ending == "done" else None
