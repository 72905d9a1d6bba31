"""Servers die while offsets are changed: a worker, the leading worker, the broker that coordinates a sink's group.

Several changes are held, each at another point, when the server is killed; then all go on at once. Each of them is
done, did not happen, or `journal resume` finishes it.
"""

from __future__ import annotations

import re
import signal
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from seamark.devstack.client import ask
from seamark.devstack.process import state_of, wait_until
from tests.fault.offsets.offset_lane import Lane
from tests.fault.rig import is_hindered, kill_quietly

# The first of them waits for its servers too, and five processes may share two cores.
pytestmark = [pytest.mark.offset_fault, pytest.mark.timeout(900)]

# What is changed, how, and where it is held. A stray record makes seamark write to the offsets topic by itself.
HELD = (
    ("source", "forget", "ended stop"),
    ("source", "move", "begun write"),
    ("source", "move", "ended verify"),
    ("sink", "forget", "ended stop"),
    ("sink", "move", "begun write"),
    ("sink", "move", "ended write"),
    ("stray", "move", "begun write"),
    ("stray", "move", "ended write"),
)
# The same for commands. Steps: 0 stop, 1 prove, 2 preview, 3 write, 4 verify, 5 resume, 6 look where it goes on.
COMMANDS = (
    ("source", "move", "after-intent:3"),
    ("sink", "forget", "after-outcome:0"),
    ("sink", "move", "after-intent:3"),
    ("sink", "move", "after-outcome:3"),
    ("stray", "move", "after-intent:3"),
)
WRITTEN = ("ended write", "ended verify", "after-outcome:3")
ARRIVE_SECONDS = 240


class Gate:
    """Where changes wait until the server is dead."""

    def __init__(self):
        self.killed = threading.Event()
        self.arrived = Counter()

    def wait(self, name):
        self.arrived[name] += 1
        self.killed.wait(ARRIVE_SECONDS)


@pytest.fixture
def make_lanes(own_stack, tmp_path):
    """A connector for each of these."""
    made = []

    def make(kinds):
        made.extend(Lane(own_stack, tmp_path, kind=kind) for kind in kinds)
        with ThreadPoolExecutor(len(made)) as pool:
            list(pool.map(Lane.create, made))
        for lane in made:
            if lane.kind == "stray":
                lane.write_stray(lane.build_offset(lane.lines))
        return made

    yield make
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(Lane.delete, made))


def find_leader(stack):
    """The worker that the others call their leader, by the newest word in their logs."""
    found = {}
    for name in ("worker-1", "worker-2"):
        text = Path(stack.server(name).log).read_text(errors="replace")
        said = list(re.finditer(r"^\[?(\S+ \S+?)[\],].*leaderUrl='([^']+?)/?'", text, re.MULTILINE))
        found[said[-1][1]] = said[-1][2]
    newest = found[max(found)]
    return next(name for name, door in stack.toxiproxy.doors.items() if door == newest)


def find_coordinator(stack, lane):
    """The broker that keeps the group of a sink."""
    admin = AdminClient({"bootstrap.servers": stack.kafka.bootstrap_servers})
    group = f"connect-{lane.name}"
    return f"broker-{admin.describe_consumer_groups([group])[group].result(60).coordinator.id}"


def check_all(held, ended, settled):
    """What was written before the server died stays; the rest is one or the other, which `settle` has seen to."""
    print([(*one, end.ending, *last) for one, end, last in zip(held, ended, settled, strict=True)])
    assert len(settled) == len(held)
    for (kind, verb, point), one, (moved, _) in zip(held, ended, settled, strict=True):
        assert moved or point not in WRITTEN, f"{kind}, {verb}, {point}: {one}"


@pytest.mark.parametrize("is_leader", [False, True], ids=["worker", "leader"])
def test_worker_that_dies_leaves_no_change_in_between(own_stack, make_lanes, is_leader):
    lanes, gate = make_lanes([kind for kind, _, _ in HELD]), Gate()
    leader, folder = find_leader(own_stack), Path(own_stack.folder)
    name = leader if is_leader else ({"worker-1", "worker-2"} - {leader}).pop()
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
            ask(folder, "kill", name)
        finally:
            gate.killed.set()
        try:
            ended = [run.result() for run in runs]
        finally:
            # Also where one of them failed: who comes next needs both workers.
            ask(folder, "restart", name)
        settled = list(pool.map(Lane.settle, lanes, ended))
    check_all(HELD, ended, settled)


def all_stand(lanes, operators):
    """Whether every command is held at its point. One that a rebalance hindered before that is typed again."""
    for number, operator in enumerate(operators):
        if operator.poll() is not None:
            operators[number] = type_again(lanes[number], operator, COMMANDS[number])
    return all(state_of(operator.pid) == "stopped" for operator in operators)


def type_again(lane, operator, command):
    """The same command, where the first was refused or failed and changed nothing."""
    _, verb, point = command
    ended = lane.read_ended(operator, verb)
    assert is_hindered(operator.returncode, ended.said, ""), ended
    assert lane.settle(ended, by_command=True)[0] is False, ended
    return lane.start_change(verb, failpoint=f"{point}:stop")


def test_coordinator_that_dies_leaves_no_change_in_between(own_stack, make_lanes):
    """By commands, as processes of their own: librdkafka may abort one whose broker dies (librdkafka#4605)."""
    lanes, folder, operators = make_lanes([kind for kind, _, _ in COMMANDS]), Path(own_stack.folder), []
    name, is_back = find_coordinator(own_stack, lanes[2]), False
    try:
        for lane, (_, verb, point) in zip(lanes, COMMANDS, strict=True):
            operators.append(lane.start_change(verb, failpoint=f"{point}:stop"))
        wait_until(
            lambda: all_stand(lanes, operators), "every command was held", seconds=ARRIVE_SECONDS, every_seconds=0.3
        )
        ask(folder, "kill", name)
        for operator in operators:
            operator.send_signal(signal.SIGCONT)
        with ThreadPoolExecutor(len(lanes)) as pool:
            ended = list(pool.map(Lane.read_ended, lanes, operators, [verb for _, verb, _ in COMMANDS]))
            ask(folder, "restart", name)
            is_back = True
            settled = list(pool.map(lambda lane, one: lane.settle(one, by_command=True), lanes, ended))
    finally:
        for operator in operators:
            kill_quietly(operator)
        # Not once more: who comes next would find a broker that is just starting.
        if not is_back:
            ask(folder, "restart", name)
    check_all(COMMANDS, ended, settled)
