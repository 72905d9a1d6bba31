"""Somebody else is at a connector whose offsets are changed: a curl between two steps, a stranger in a sink's group."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer

from seamark.offsets.write import guards as stopped
from tests.fault.offsets.offset_lane import LINES, Lane, is_running
from tests.integration.rest import call_until

# The first of them waits for its servers too.
pytestmark = [pytest.mark.offset_fault, pytest.mark.timeout(600)]


@pytest.fixture
def make_lanes(own_stack, tmp_path):
    """Connectors of the kinds that are asked for, all at once."""
    made = []

    def make(*kinds):
        lanes = [Lane(own_stack, tmp_path, kind=kind) for kind in kinds]
        made.extend(lanes)
        with ThreadPoolExecutor(len(lanes)) as pool:
            list(pool.map(Lane.create, lanes))
        return lanes

    yield make
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(Lane.delete, made))


class Member(threading.Thread):
    """A consumer in a sink's group that nobody has told to leave: what a zombie task of the sink is to Kafka."""

    def __init__(self, lane):
        super().__init__(daemon=True)
        self._lane = lane
        self._leave = threading.Event()
        self.is_in = threading.Event()

    def run(self):
        config = {
            "bootstrap.servers": self._lane.stack.kafka.bootstrap_servers,
            "group.id": f"connect-{self._lane.name}",
            "enable.auto.commit": False,
            "session.timeout.ms": 10000,
        }
        consumer = Consumer(config)
        consumer.subscribe([self._lane.name], on_assign=lambda *_: self.is_in.set())
        while not self._leave.is_set():
            consumer.poll(0.2)
        consumer.close()

    def join_group(self):
        self.start()
        assert self.is_in.wait(60), "the stranger was let into the group"

    def leave_soon(self, seconds):
        threading.Timer(seconds, self._leave.set).start()

    def leave(self):
        self._leave.set()
        self.join(60)


@contextmanager
def member_of(lane):
    member = Member(lane)
    try:
        yield member
    finally:
        if member.is_alive():
            member.leave()


def patch_elsewhere(lane):
    """Somebody's curl gives it another place, neither the old nor the new one."""
    lane.call("PATCH", "/offsets", {"offsets": [{"partition": lane.partition, "offset": lane.build_offset(2)}]})


def await_everywhere(lane, path, is_so):
    """Until each worker has said so: seamark looks right behind it, and may ask one that has not heard of it yet."""
    for url in lane.endpoint.urls:
        call_until(f"{url}/connectors/{lane.name}{path}", lambda status, answer: status == 200 and is_so(answer))


def change_config(lane):
    """Somebody's curl changes its config."""
    lane.call("PUT", "/config", lane.call("GET", "/config") | {"tasks.max": "2"})
    await_everywhere(lane, "/config", lambda config: config["tasks.max"] == "2")


def resume(lane):
    """Somebody's curl resumes it, and it is seen to run."""
    lane.call("PUT", "/resume")
    lane.await_end()
    await_everywhere(lane, "/status", is_running)


# Between which steps somebody acts, what he does, what is said about it, and how many lines are read again.
CURLS = {
    "resume after the proof": ("ended prove", resume, "is not stopped", 0),
    "offsets between write and verify": ("ended write", patch_elsewhere, "another process writes them", 1),
    "config after the stop": ("ended stop", change_config, "the config of connector", 0),
    "config after the write": ("ended write", change_config, "the config of connector", LINES - 1),
}


def run_curl(lane, what):
    """One change with one act of somebody else in it, which must be told."""
    point, act, words, again = CURLS[what]
    ended = lane.change_at(point, lambda: act(lane))
    where = f"{lane.kind}, {what}: {ended}"
    assert not ended.is_left, where
    assert not ended.is_done, where
    assert words in ended.said, where
    lane.finish()
    lane.check(again)
    return where


def test_curl_between_two_steps_is_seen(make_lanes):
    lanes = make_lanes(*["source", "sink"] * len(CURLS))
    with ThreadPoolExecutor(len(lanes)) as pool:
        runs = list(pool.map(run_curl, lanes, [what for what in CURLS for _ in range(2)]))
    assert len(runs) == 2 * len(CURLS)


def run_overwritten(lane):
    """Somebody's curl right before the write."""
    # Its requests are repeated for 20 s then, not 8: a rebalance shall not be why it is not done.
    lane.be_patient()
    ended = lane.change_at("ended preview", lambda: patch_elsewhere(lane))
    assert ended.is_done, ended
    lane.settle(ended)
    with lane.open() as fleet:
        entries = fleet.journal.show(ended.change)
    found = [entry.body["before"] for entry in entries if str(entry.kind) == "intent"]
    return [place for image in found for place in image.get("offsets", {}).values()]


def test_what_somebody_wrote_right_before_us_is_in_the_journal(make_lanes):
    """Nobody can tell his write from the last one of a task; but undo leads back to it."""
    lanes = make_lanes("source", "sink")
    with ThreadPoolExecutor(len(lanes)) as pool:
        found = list(pool.map(run_overwritten, lanes))
    assert [[json.loads(place) for place in places] for places in found] == [[lane.build_offset(2)] for lane in lanes]


def test_sink_with_a_stranger_in_its_group_is_not_moved_while_he_is_in(make_lanes, monkeypatch):
    """KAFKA-15917: offsets are altered while a task that should be gone is still a member of the group."""
    leaving, staying, late = make_lanes("sink", "sink", "sink")
    # Longer than the other two need: the last look of the one that stays must not fall into their rebalances. The one
    # that is to be done repeats its requests for 20 s, not 8.
    monkeypatch.setattr(stopped, "_DEADLINE_SECONDS", 40.0)
    leaving.be_patient()
    with member_of(leaving) as one, member_of(staying) as two, member_of(late) as three, ThreadPoolExecutor(3) as pool:

        def join_and_leave():
            one.join_group()
            one.leave_soon(4)

        gone = pool.submit(leaving.change_at, "ended stop", join_and_leave)
        stayed = pool.submit(staying.change_at, "ended stop", two.join_group, "forget")
        # He comes when it is proven that nobody is there: then only Connect can refuse.
        came = pool.submit(late.change_at, "ended preview", three.join_group)
        gone, stayed, came = gone.result(), stayed.result(), came.result()
    assert gone.is_done, gone
    assert leaving.settle(gone) == (True, 0)
    assert "still has members" in stayed.said, stayed
    assert staying.settle(stayed)[0] is False
    assert not came.is_done, came
    assert came.outcomes["write"] == "did not happen", came
    assert late.settle(came)[0] is False
