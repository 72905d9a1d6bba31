"""A worker is partitioned from Kafka, both ways and one-way, while offsets of its connectors are changed.

Its REST API stays up: whoever asks it gets answers. After 6 s it is out of the worker group, and another worker has its
tasks. Only the second worker reaches the brokers through the link that is cut.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from seamark.devstack.process import wait_until
from seamark.errors import SeamarkError
from seamark.kafka.worker_group import read_worker_ids
from seamark.offsets.codec.codec import encode_key
from tests.fault.offsets.offset_lane import ASLEEP, LINE, Lane
from tests.fault.offsets.partition import (
    ANSWERS_LOST,
    REQUESTS_LOST,
    RESET,
    SILENCE,
    Bystander,
    Recorder,
    build_worker_link,
    find_violations,
)
from tests.fault.toxic import Cut
from tests.integration.offset_tools import read_writes
from tests.integration.waits import says_hindered

# The first of them waits for its servers too.
pytestmark = [pytest.mark.offset_fault, pytest.mark.timeout(900)]

# What is changed, how, and where the change is when the link is cut.
HELD = (
    ("source", "move", "begun stop"),
    ("sink", "forget", "ended stop"),
    ("source", "move", "begun write"),
    ("sink", "move", "begun write"),
    ("source", "forget", "ended write"),
)
# Its session is 6 s: then it is out of its group.
CUT_SECONDS = 11
# A heartbeat and its answer take 8 s.
SLOW = Cut("latency", attributes={"latency": 4000})
ARRIVE_SECONDS = 120
NOT_ALIVE = "is not known to be alive: it may still write its offsets"
# Lines a second, while a source reads.
PACE_SECONDS = 0.02


@pytest.fixture(scope="module")
def recorder(own_stack):
    with Recorder(own_stack) as recorder:
        yield recorder


@pytest.fixture(scope="module")
def lanes(own_stack, recorder, tmp_path_factory):
    """The connectors of all ways; some of their tasks are with the worker that will be cut off."""
    folder = tmp_path_factory.mktemp("worker")
    lanes = [Lane(own_stack, folder, kind=kind) for kind, _, _ in HELD]
    for lane in lanes:
        lane.has_zombie = True
    with ThreadPoolExecutor(len(lanes)) as pool:
        list(pool.map(Lane.create, lanes))
        yield lanes
        list(pool.map(Lane.delete, lanes))


@pytest.fixture(scope="module")
def bystander(own_stack, recorder, tmp_path_factory):
    lane = Lane(own_stack, tmp_path_factory.mktemp("bystander"), kind="source")
    lane.has_zombie = True
    lane.create()
    yield Bystander(lane)
    lane.delete()


@pytest.fixture
def link(own_stack):
    link = build_worker_link(own_stack)
    yield link
    link.heal()
    ASLEEP.clear()
    await_member(own_stack)


def find_address(stack):
    """The address of the worker behind the link, as a status names it."""
    return stack.connect["connect"].urls[1].removeprefix("http://")


def read_members(stack):
    config = {"bootstrap.servers": stack.kafka.bootstrap_servers}
    return read_worker_ids(config, stack.connect["connect"].group_id, timeout_seconds=10)


def is_member(stack):
    try:
        return find_address(stack) in read_members(stack)
    except SeamarkError:
        # The group rebalances.
        return None


def await_member(stack):
    wait_until(lambda: is_member(stack), "the worker was in its group again", seconds=120, every_seconds=0.3)


class Gate:
    """Where changes wait until the link is cut."""

    def __init__(self):
        self._opened = threading.Event()
        self.arrived = set()

    def wait(self, name):
        self.arrived.add(name)
        assert self._opened.wait(ARRIVE_SECONDS), "the link was cut"

    def open(self):
        self._opened.set()


@pytest.mark.parametrize(
    "cut",
    [
        pytest.param(SILENCE, id="silence"),
        pytest.param(REQUESTS_LOST, id="requests-lost"),
        pytest.param(ANSWERS_LOST, id="answers-lost"),
        pytest.param(SLOW, id="slower-than-its-session"),
        pytest.param(RESET, id="reset"),
    ],
)
def test_worker_behind_a_cut_leaves_no_change_in_between(own_stack, lanes, link, recorder, bystander, cut):
    await_member(own_stack)
    gate = Gate()
    places = [lane.read_worker() for lane in lanes]
    assert find_address(own_stack) in places, "no task is with the worker that is cut off"
    with ThreadPoolExecutor(len(lanes)) as pool:
        runs = [
            pool.submit(lane.change_at, point, lambda lane=lane: gate.wait(lane.name), verb)
            for lane, (_, verb, point) in zip(lanes, HELD, strict=True)
        ]
        try:
            wait_until(
                lambda: len(gate.arrived) == len(HELD) or any(run.done() for run in runs),
                "every change was held",
                seconds=ARRIVE_SECONDS,
            )
            assert len(gate.arrived) == len(HELD), [run.result() for run in runs if run.done()]
            link.note_bytes()
            link.cut(cut)
        finally:
            gate.open()
        time.sleep(CUT_SECONDS)
        was_member = is_member(own_stack)
        link.heal()
        ended = [run.result() for run in runs]
        counted = link.count_bytes()
        settled = list(pool.map(Lane.settle, lanes, ended))
    rows = [
        (place == find_address(own_stack), *held, one.ending, *last)
        for place, held, one, last in zip(places, HELD, ended, settled, strict=True)
    ]
    print(f"{cut.kind} {cut.streams}: member at the end {was_member}; bytes (in, lost) {counted}; {rows}")
    if cut.kind == "latency":
        assert all(counted[stream][0] > 0 for stream in cut.streams), counted
    else:
        assert any(counted[stream][1] > 0 for stream in cut.streams), counted
    for one, (_, verb, point), (moved, _) in zip(ended, HELD, settled, strict=True):
        assert moved or point != "ended write", (verb, one)
    assert [words for lane in lanes for words in find_violations(lane, recorder)] + bystander.find_changes() == []


def test_zombie_whose_rest_api_answers_is_refused_until_it_is_back(own_stack, link, recorder, make_lane):
    """It is out of its group with an offset that it couldn't store, and stores it when the link is healed.

    Another worker has the task by then, so no status names the zombie. Its REST API answers.
    """
    await_member(own_stack)
    lane = make_lane()
    with Feeder(lane):
        time.sleep(2)
        link.note_bytes()
        link.cut(REQUESTS_LOST)
        time.sleep(1)
    # Whoever asks that worker hears how it was when it was cut off.
    ASLEEP.add(own_stack.connect["connect"].urls[1])
    address = find_address(own_stack)
    wait_until(lambda: is_member(own_stack) is False, "the worker was out of its group", seconds=60, every_seconds=0.3)
    wait_until(lambda: lane.read_worker() != address, "another worker had the task", seconds=60, every_seconds=0.3)
    lane.await_end()
    refused = lane.change("move")
    known = read_stored(own_stack, lane)
    link.heal()
    ASLEEP.clear()
    await_member(own_stack)
    counted = link.count_bytes()
    assert any(lost > 0 for _, lost in counted.values()), counted
    late = read_stored(own_stack, lane)[len(known) :]
    print(f"zombie: {refused.ending}; bytes (in, lost) {counted}; stored late: {late}")
    assert not refused.is_done, refused
    assert "write" not in refused.outcomes, refused
    assert NOT_ALIVE in refused.said, refused
    lane.finish()
    lane.await_end()
    lane.seen = lane.count()
    # Back in its group it is known to be alive, and the same change is done.
    ended = lane.change("move")
    for _ in range(3):
        if not says_hindered(ended.said):
            break
        assert lane.settle(ended)[0] is False
        ended = lane.change("move")
    assert ended.is_done, ended
    assert lane.settle(ended) == (True, 0)
    assert find_violations(lane, recorder) == []


@pytest.fixture
def make_lane(own_stack, recorder, tmp_path):
    """A source whose task is with the worker behind the link."""
    made = []

    def make():
        for _ in range(8):
            made.append(Lane(own_stack, tmp_path, kind="source"))
            made[-1].has_zombie = True
            made[-1].create()
            if made[-1].read_worker() == find_address(own_stack):
                return made[-1]
        raise AssertionError("no task was given to the worker behind the link")

    yield make
    for lane in made:
        lane.delete()


class Feeder:
    """Lines for a source, all the time: so it always holds an offset that isn't stored yet."""

    def __init__(self, lane):
        self._lane = lane
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._feed, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join(10)

    def _feed(self):
        while not self._over.wait(PACE_SECONDS):
            with self._lane.file.open("a") as file:
                file.write(LINE)
            self._lane.lines += 1


def read_stored(stack, lane):
    """Every offset that was written for a connector, in its order."""
    topic, key = stack.connect["connect"].offsets_topic, encode_key(lane.name, lane.partition)
    return read_writes(stack.kafka.bootstrap_servers, topic, key)
