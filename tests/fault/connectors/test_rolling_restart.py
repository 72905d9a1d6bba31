"""A hundred connectors restart at a pace while a worker dies. The config topic shows each restart that Connect got."""

from __future__ import annotations

import threading
import time
import uuid
from collections import defaultdict
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from seamark.connectors.actions import RESTART_STABLE_SECONDS
from seamark.devstack import StackSpec, start_stack
from seamark.devstack.client import ask
from tests.fault.fleet_yard import SIZE, Yard

PACE = 10
# The worker dies while the third group restarts.
KILL_AFTER = 2 * PACE * 2 + 5
# How long a request may stay without an answer because of the dead worker, until it is sent again.
LOST_SECONDS = 120
pytestmark = pytest.mark.timeout(1500)


@pytest.fixture(scope="module")
def own_stack():
    """Servers that may be killed."""
    with start_stack(StackSpec(brokers=1, workers=2), name="rolling") as stack:
        yield stack


class Killer:
    """Follows a change, and kills a worker when some of its steps have ended."""

    def __init__(self, stack, worker):
        self.at = 0.0
        self._kill = threading.Thread(target=self._do, args=(Path(stack.folder), worker))
        self._left = KILL_AFTER

    def _do(self, folder, worker):
        ask(folder, "kill", worker)
        self.at = time.time()

    def opened(self, change, *, steps):
        assert steps == 2 * SIZE

    def begun(self, number, words):
        pass

    def waiting(self, words):
        pass

    def ended(self, result):
        self._left -= 1
        if self._left == 0:
            self._kill.start()

    def join(self):
        self._kill.join(30)
        assert self.at


def read_restarts(stack, prefix):
    """When Connect wrote each restart of the connectors whose name begins so into its config topic, in seconds."""
    settings = {"bootstrap.servers": stack.kafka.bootstrap_servers, "group.id": uuid.uuid4().hex}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    found = defaultdict(list)
    try:
        place = TopicPartition(stack.connect["connect"].config_topic, 0, 0)
        end = consumer.get_watermark_offsets(place, timeout=30)[1]
        consumer.assign([place])
        for _ in range(end):
            message = consumer.poll(5)
            if message is None:
                break
            key = (message.key() or b"").decode()
            if key.startswith(f"restart-connector-{prefix}"):
                found[key.removeprefix("restart-connector-")].append(message.timestamp()[1] / 1000)
    finally:
        consumer.close()
    return found


# The first worker is the one that is talked to, and one of the two is the leader.
@pytest.mark.parametrize("worker", ["worker-1", "worker-2"])
def test_rolling_restart_keeps_its_pace_while_a_worker_dies(own_stack, tmp_path, worker):
    yard = Yard(own_stack, tmp_path)
    killer = Killer(own_stack, worker)
    with yard.open(SEAMARK_CONTEXTS__DEV__IN_FLIGHT_TIMEOUT="90s") as fleet:
        assert fleet.apply(fleet.plan(yard.spec)).is_done
        yard.await_running(yard.names)
        began_at = time.time()
        due, runs, named = set(yard.names), [], set()
        while due:
            planned = fleet.connectors.restart(sorted(due), include_running=True, pace=PACE)
            result = fleet.apply(planned, None if runs else killer)
            if not runs:
                killer.join()
            if result.ending is None:
                result = fleet.journal.resume(result.change)
            failed = {subject.rpartition("/")[2] for subject in result.failures}
            left = {words.rpartition("/")[2].partition(" ")[0] for words in result.left}
            runs.append((len(due), len(failed), len(left)))
            assert len(runs) < 6, result.failures
            named |= failed
            due &= failed | left
            yard.await_running(yard.names)
        took = time.time() - began_at
        restarts = read_restarts(own_stack, yard.run)

        # Everything was restarted, and again only where the answer was lost with the worker, or where seamark said so.
        assert restarts.keys() == yard.names
        again = {name: times for name, times in restarts.items() if len(times) > 1 and name not in named}
        assert len(again) <= PACE
        assert all(abs(at - killer.at) < LOST_SECONDS for times in again.values() for at in times)
        # Each connector is watched for longer than this before the next one begins.
        first = sorted(times[0] for times in restarts.values())
        gaps = [late - early for early, late in zip(first, first[PACE:], strict=False)]
        assert min(gaps) >= RESTART_STABLE_SECONDS
        yard.await_running(yard.names)
        ask(Path(own_stack.folder), "restart", worker)
    with yard.open(SEAMARK_CONTEXTS__DEV__IN_FLIGHT_TIMEOUT="90s") as fleet:
        assert fleet.apply(fleet.destroy(yard.spec)).is_done
    print(
        f"{worker} killed: {SIZE} restarted in {took:.0f} s, {PACE} at once; runs (due, failed, left) {runs}; "
        f"restarted twice: {len(again)} unanswered, {len(named)} named; least time for {PACE + 1}: {min(gaps):.1f} s"
    )
