"""Strays are cleaned out of the log: a kill on the way is finished by resume, and workers that restart go on right."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from seamark.change.steps.cleaning import CLEAN_SECONDS, CLEANING
from seamark.devstack.control import ask
from seamark.devstack.wait import wait_until
from seamark.model.key_hash import choose_partition
from seamark.offsets.codec import encode_key
from tests.fault.offset_lane import Lane
from tests.fault.rig import SETTLE_SECONDS, SOURCE, Rig, kill_quietly, wait_stopped
from tests.integration.offset_rig import describe_failures, read_raw
from tests.integration.offset_tools import Brokers, read_partition
from tests.integration.waits import IN_A_ROW, ask_patiently, await_topic

pytestmark = pytest.mark.timeout(600)
PARTITIONS = 3
# stop 0 · lend the config 1 · prove 2 · mend 3 · clean 4 · level 5 · config back 6 · verify 7 · resume 8
# All ten that act were tried; these are the ones that leave something behind.
POINTS = (
    "after-perform:1",
    "between-writes:0",
    "after-perform:3",
    "after-intent:5",
    "after-perform:5",
    "after-perform:6",
)
TOO_SMALL = "max.message.bytes"


class OddRig(Rig):
    """A source with an offsets topic of its own, and two strays in it."""

    def create(self):
        self.own = f"{self.name}-offsets"
        self.brokers = Brokers(self.stack.kafka.bootstrap_servers)
        new = NewTopic(self.own, PARTITIONS, 1, config={"cleanup.policy": "compact", "segment.ms": "700000"})
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

    def refuse_all(self):
        """Its offsets topic takes nothing any more, on no broker: each acts on a new limit in its own time."""
        self.set_limit("1")
        wait_until(lambda: self._try_records() == {"refused"}, f"{self.own} took nothing", seconds=SETTLE_SECONDS)

    def _try_records(self):
        """What becomes of a record of nobody's on each partition."""
        said, producer = set(), Producer({"bootstrap.servers": self.stack.kafka.bootstrap_servers, "acks": "all"})
        for number in range(PARTITIONS):
            note = lambda error, _: said.add("refused" if error else "taken")  # noqa: E731
            producer.produce(self.own, key=b'["nobody",{}]', value=b"{}", partition=number, on_delivery=note)
        assert producer.flush(60) == 0
        return said

    def set_limit(self, value):
        """How large a record of its offsets topic may be; None is as before."""
        kind = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        entry = ConfigEntry(TOO_SMALL, value, incremental_operation=kind)
        resource = ConfigResource(ResourceType.TOPIC, self.own, incremental_configs=[entry])
        for future in self.brokers._admin.incremental_alter_configs([resource]).values():
            future.result(60)

    def await_configs(self, wanted):
        """Until every broker tells these: any of them may be asked, and each hears of a change in its own time."""
        wait_until(
            lambda: all(self.read_configs() == wanted for _ in range(IN_A_ROW)),
            f"every broker told {wanted} of {self.own}",
            seconds=SETTLE_SECONDS,
        )

    def read_configs(self):
        resource = ConfigResource(ResourceType.TOPIC, self.own)
        found = self.brokers._admin.describe_configs([resource])[resource].result(60)
        own = {key: entry.value for key, entry in found.items() if key in CLEANING and not entry.is_default}
        return {key: value for key, value in own.items() if found[key].source == 1}


@pytest.fixture
def odd_rig(own_stack, tmp_path, hasty_cleaner):
    rig = OddRig(own_stack, tmp_path)
    rig.create()
    yield rig
    rig.delete()
    rig.brokers.clean(rig.own, rig.name)


@pytest.fixture(scope="module")
def hasty_cleaner(own_stack):
    """The cleaner looks every second and not every 15: the same cleaner, on brokers of our own."""
    set_backoff(own_stack, "1000")
    yield
    set_backoff(own_stack, None)


def set_backoff(stack, value):
    admin = AdminClient({"bootstrap.servers": stack.kafka.bootstrap_servers})
    kind = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    entry = ConfigEntry("log.cleaner.backoff.ms", value, incremental_operation=kind)
    for broker in admin.list_topics(timeout=60).brokers:
        resource = ConfigResource(ResourceType.BROKER, str(broker), incremental_configs=[entry])
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(60)


@pytest.mark.parametrize("point", POINTS)
def test_killed_cleaning_is_finished_by_resume_and_the_config_comes_back(odd_rig, point):
    rig = odd_rig
    configs = {"segment.ms": "700000"}
    rig.await_configs(configs)
    code, _, err = rig.run_unhindered(
        *("seamark.cli", "offsets", "mend", rig.name, "--take", "newest", "--clean", "--wait", "0s", "--yes"),
        failpoint=f"{point}:kill",
    )
    assert code == -9, (code, err)
    (change, *_) = rig.changes()
    assert change["state"] == "open", change
    code, _, err = rig.resume(change["change"])
    assert code == 0, err
    assert rig.changes()[0]["state"] == "done"
    rig.await_configs(configs)
    assert rig.held() == {rig.home: b'{"position":%d}' % rig.input.stat().st_size}
    wait_until(rig.runs, f"{rig.name} ran again", seconds=90)
    rig.check_third()


def test_a_source_stays_stopped_while_its_value_can_not_be_told_again(odd_rig):
    """Between the tombstones and the value the topic begins to take nothing: a task would find nothing there."""
    rig = odd_rig
    mend = ("offsets", "mend", rig.name, "--take", "newest", "--clean", "--wait", "0s", "--yes")
    holder = rig.start("seamark.cli", *mend, failpoint="between-writes:0:stop")
    try:
        wait_stopped(holder)
        rig.refuse_all()
        holder.send_signal(signal.SIGCONT)
        # It waits for its cleaning as long as one may take.
        _, err = holder.communicate(timeout=CLEAN_SECONDS + 200)
    finally:
        kill_quietly(holder)
    assert holder.returncode == 1, err
    assert f"resume connector/{rig.owner}" in err
    (change, *_) = rig.changes()
    assert (change["state"], rig.state()) == ("open", "STOPPED")
    code, _, err = rig.seamark("journal", "resume", change["change"], "--yes")
    assert (code, rig.state()) == (1, "STOPPED"), err
    rig.set_limit(None)
    ends = []

    def is_over():
        ends.append(rig.seamark("journal", "resume", change["change"], "--yes"))
        return ends[-1][0] != 1

    # Each broker takes records again in its own time.
    wait_until(is_over, f"{rig.own} took records again", seconds=SETTLE_SECONDS)
    assert ends[-1][0] == 3, ends[-1][2]
    assert rig.changes()[0]["state"] == "partly"
    assert set(rig.held().values()) == {b'{"position":%d}' % rig.input.stat().st_size}
    wait_until(rig.runs, f"{rig.name} ran again", seconds=90)
    rig.check_third()


def test_workers_that_start_anew_go_on_where_the_source_stood(own_stack, tmp_path, hasty_cleaner):
    """On the workers' own topic: the stray is the stale position, which a worker takes as often as the right one."""
    lanes = [Lane(own_stack, tmp_path, kind="stray") for _ in range(3)]
    try:
        with ThreadPoolExecutor(len(lanes)) as pool:
            list(pool.map(Lane.create, lanes))
        for lane in lanes:
            lane.write_stray(lane.build_offset(1))
        # With a short `in_flight` a rebalance of a few seconds would be the end of it.
        lanes[0].be_patient()
        with lanes[0].open() as fleet:
            names = [lane.name for lane in lanes]
            planned = ask_patiently(lambda: fleet.offsets.mend(names, take="newest", clean=True, wait_seconds=0))
            assert sum("(taken out)" in line for line in str(planned).splitlines()) == len(lanes)
            result = fleet.apply(planned)
            assert result.is_done, describe_failures(result)
        for _ in range(2):
            restart_workers(own_stack)
            for lane in lanes:
                lane.await_end()
                lane.check(0)
        for lane in lanes:
            with lane.open() as fleet:
                assert ask_patiently(lambda fleet=fleet, lane=lane: fleet.offsets.of(lane.name)).findings == ()
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
