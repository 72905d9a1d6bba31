"""Copies get the same value: a kill on the way is finished by resume, and workers that restart go on right."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from seamark.devstack.client import ask
from seamark.devstack.process import wait_until
from seamark.kafka.partitioner import choose_partition
from seamark.offsets.codec.codec import encode_key
from tests.fault.offsets.offset_lane import Lane
from tests.fault.rig import SETTLE_SECONDS, SOURCE, Rig
from tests.integration.offset_rig import describe_failures, read_raw
from tests.integration.offset_tools import Brokers, read_partition
from tests.integration.waits import ask_patiently, await_topic

pytestmark = [pytest.mark.recovery, pytest.mark.timeout(600)]
PARTITIONS = 3
# stop 0 · prove 1 · mend 2 · verify 3 · resume 4
POINTS = ("after-perform:0", "after-intent:2", "after-perform:2", "after-intent:4")


class OddRig(Rig):
    """A source with an offsets topic of its own, and two strays in it."""

    def create(self):
        self.own = f"{self.name}-offsets"
        self.brokers = Brokers(self.stack.kafka.bootstrap_servers)
        new = NewTopic(self.own, PARTITIONS, 1, config={"cleanup.policy": "compact"})
        self.brokers._admin.create_topics([new])[self.own].result(60)
        await_topic(self.brokers._admin, self.own, PARTITIONS)
        self.put(
            self.name,
            {"connector.class": SOURCE, "tasks.max": "1", "file": str(self.input), "topic": self.name}
            | {"offsets.storage.topic": self.own},
        )
        wait_until(self.runs, f"{self.name} ran", seconds=90)
        self.await_stored()
        # A task that Connect itself ends before its first flush reads both lines again.
        self.already = len(self.read_lines())
        key = encode_key(self.name, {"filename": str(self.input)})
        self.home = choose_partition(key, partitions=PARTITIONS)
        for aside in (1, 2):
            self.brokers.write(self.own, (key, b'{"position":0}'), partition=(self.home + aside) % PARTITIONS)

    def held(self):
        return {where: value for (where, _), value in read_raw(self.brokers, self.own, self.name).items()}

    def await_stored(self):
        """The position of the whole file is stored."""
        value = b'{"position":%d}' % self.input.stat().st_size
        wait_until(lambda: value in self.held().values(), f"{self.name} stood at its end", seconds=90)

    def read_lines(self):
        """The lines that are in its topic."""
        return read_partition(self.stack.kafka.bootstrap_servers, self.name)

    def check_third(self):
        """A third line is read, and no other one again."""
        with self.input.open("a") as file:
            file.write("three\n")
        wait_until(lambda: len(self.read_lines()) > self.already, "the third line was there", seconds=SETTLE_SECONDS)
        self.await_stored()
        new = self.read_lines()[self.already :]
        assert all(b"three" in line for line in new), new


@pytest.fixture
def odd_rig(own_stack, tmp_path):
    rig = OddRig(own_stack, tmp_path)
    rig.create()
    yield rig
    rig.delete()
    rig.brokers.clean(rig.own, rig.name)


@pytest.mark.parametrize("point", POINTS)
def test_killed_mend_is_finished_by_resume(odd_rig, point):
    rig = odd_rig
    code, _, err = rig.run_unhindered(
        *("tests.fault.cli", "offsets", "repair", rig.name, "--prefer", "newest", "--progress-timeout", "0s", "--yes"),
        failpoint=f"{point}:kill",
    )
    assert code == -9, (code, err)
    (change, *_) = rig.changes()
    assert change["state"] == "open", change
    code, _, err = rig.resume(change["change"])
    assert code == 0, err
    assert rig.changes()[0]["state"] == "done"
    assert rig.held() == dict.fromkeys(range(PARTITIONS), b'{"position":%d}' % rig.input.stat().st_size)
    wait_until(rig.runs, f"{rig.name} ran again", seconds=90)
    rig.check_third()


def test_workers_that_start_anew_go_on_where_the_source_stood(own_stack, tmp_path):
    """On the workers' own topic: the stray is the stale position, which a worker takes as often as the right one."""
    lanes = [Lane(own_stack, tmp_path, kind="stray") for _ in range(3)]
    try:
        with ThreadPoolExecutor(len(lanes)) as pool:
            list(pool.map(Lane.create, lanes))
        for lane in lanes:
            lane.write_stray(lane.build_offset(1))
        # With a short `in_flight_timeout` a rebalance of a few seconds would be the end of it.
        lanes[0].be_patient()
        with lanes[0].open() as fleet:
            names = [lane.name for lane in lanes]
            planned = ask_patiently(lambda: fleet.offsets.repair(names, take="newest", wait_seconds=0))
            assert sum("1 record repaired" in line for line in str(planned).splitlines()) == len(lanes)
            result = fleet.apply(planned)
            assert result.is_done, describe_failures(result)
        for _ in range(2):
            restart_workers(own_stack)
            for lane in lanes:
                lane.await_end()
                lane.check(0)
    finally:
        for lane in lanes:
            lane.delete()


def restart_workers(stack):
    folder = Path(stack.folder)
    names = [entry.name for entry in stack.servers if entry.name.startswith("worker-")]
    assert names
    for name in names:
        ask(folder, "kill", name)
    for name in names:
        ask(folder, "restart", name)
