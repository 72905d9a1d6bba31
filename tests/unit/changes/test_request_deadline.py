"""The absolute deadline of a request, with the real Connect client and the real file journal on a clock that jumps."""

from __future__ import annotations

import time
from contextvars import Context

import httpx2
import pytest

from seamark.changes.actor import Actor
from seamark.changes.executor import Executor
from seamark.changes.file_journal import FileJournal
from seamark.changes.outcome import Outcome
from seamark.changes.recovery import Recovery
from seamark.changes.timing import SEND_SECONDS, ChangeTiming, build_timing
from seamark.connect import caller as caller_module
from seamark.connect.caller import Timing
from seamark.connect.client import ConnectClient
from seamark.connectors.run_state import SetRunState
from seamark.errors import FencedError
from tests.ports import MethodPorts
from tests.step_list import build_step_list, plan_actions

STALE = (
    "Cannot complete request momentarily due to stale configuration (typically caused by a concurrent config change)"
)
TIMING = build_timing(90.0)


class Clock:
    """The clock of one machine: it shows the real time and what a test adds to it."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def now(self) -> float:
        return time.time() + self.ahead

    def sleep(self, seconds: float) -> None:
        self.ahead += seconds


class Connect:
    """Two workers and one connector. `conflicts` are the 409s to come; `hangs` makes the second worker silent."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.state = "RUNNING"
        self.conflicts = 0
        self.hangs = False
        self.who = "first"
        # Who sent which request, and when.
        self.sent: list[tuple[str, str, float]] = []
        self.roots = 0

    def handle(self, request: httpx2.Request) -> httpx2.Response:
        path = request.url.path
        if path == "/":
            self.roots += 1
            if self.hangs and request.url.host == "w2":
                self.clock.ahead += 30.0
                raise httpx2.ReadTimeout("no answer")
            return httpx2.Response(200, json={"version": "4.3.1", "commit": "c", "kafka_cluster_id": "k"})
        if path.endswith("/status"):
            state = {"state": self.state, "worker_id": "w1:1"}
            tasks = [] if self.state == "STOPPED" else [{"id": 0, **state}]
            return httpx2.Response(200, json={"name": "orders", "connector": state, "tasks": tasks, "type": "source"})
        verb = path.rsplit("/", 1)[1]
        self.sent.append((self.who, verb, self.clock.now()))
        if self.conflicts:
            self.conflicts -= 1
            return httpx2.Response(409, json={"error_code": 409, "message": STALE})
        self.state = {"stop": "STOPPED", "resume": "RUNNING"}[verb]
        return httpx2.Response(202)


class Environment(MethodPorts):
    """What a fleet's world does with Connect, over one client."""

    def __init__(self, connect: Connect) -> None:
        self.clock = connect.clock
        self.client = ConnectClient(
            ["http://w1:1", "http://w2:1"],
            cluster="c",
            timing=Timing(deadline_seconds=TIMING.send_seconds),
            transport=httpx2.MockTransport(connect.handle),
        )

    def connect(self, cluster: str) -> ConnectClient:
        del cluster
        self.client.read_capabilities()
        return self.client

    def read_status(self, cluster: str, name: str):
        return self.connect(cluster).read_status(name)

    def seal(self, value: str) -> str:
        return value

    def reveal(self, reference: str) -> str:
        return reference


def build_executor(name: str, folder, connect: Connect) -> Executor:
    now = connect.clock.now
    return Executor(FileJournal(folder, now=now), Environment(connect), actor=Actor(name, now=now), timing=TIMING)


def build_plan(world: Environment, state: str):
    steps = [SetRunState("c", "orders", state)]
    return plan_actions([build_step_list("orders", steps, locks=("source.o.orders@w",))], world=world)[0]


def test_a_holder_that_was_stopped_between_two_attempts_sends_nothing_more(tmp_path, monkeypatch):
    clock = Clock()
    connect = Connect(clock)
    connect.conflicts = 1

    def stop_here(_seconds: float) -> None:
        """SIGSTOP in the pause. Other processes have contexts of their own."""
        monkeypatch.setattr(caller_module.time, "sleep", clock.sleep)
        Context().run(take_over)

    def take_over() -> None:
        """Another operator resumes the change, and a third one starts the connector again."""
        clock.ahead += 300
        connect.who = "second"
        second = build_executor("second", tmp_path, connect)
        assert Recovery(second).resume(second.journal.open_heads()[0].change).is_done
        assert connect.state == "STOPPED"
        connect.who = "third"
        third = build_executor("third", tmp_path, connect)
        assert third.apply(build_plan(third.world, "RUNNING")).is_done
        clock.ahead += 300
        connect.who = "first"

    monkeypatch.setattr(caller_module.time, "sleep", stop_here)
    first = build_executor("first", tmp_path, connect)

    with pytest.raises(FencedError):
        first.apply(build_plan(first.world, "STOPPED"))

    assert connect.state == "RUNNING"
    assert [(who, verb) for who, verb, _ in connect.sent] == [
        ("first", "stop"),
        ("second", "stop"),
        ("third", "resume"),
    ]


def test_a_capability_refresh_does_not_delay_a_request(tmp_path, monkeypatch):
    clock = Clock()
    connect = Connect(clock)
    monkeypatch.setattr(caller_module.time, "sleep", clock.sleep)
    executor = build_executor("first", tmp_path, connect)
    plan = build_plan(executor.world, "STOPPED")
    roots: list[int] = []
    confirm = Executor._confirm

    def confirm_and_expire(self, *args, **kwargs):
        """The minute of the known capabilities ends between the intent and the request."""
        found = confirm(self, *args, **kwargs)
        known = self.world.client._capabilities
        self.world.client._capabilities = (known[0] - 61.0, known[1])
        connect.hangs = True
        roots.append(connect.roots)
        return found

    monkeypatch.setattr(Executor, "_confirm", confirm_and_expire)
    began_at = clock.now()

    assert executor.apply(plan).is_done
    assert roots == [2]
    # A refresh would have taken 30 s.
    assert connect.sent[0][2] - began_at < 5


def test_capabilities_that_are_not_known_yet_can_not_make_a_request_late(tmp_path, monkeypatch):
    clock = Clock()
    connect = Connect(clock)
    monkeypatch.setattr(caller_module.time, "sleep", clock.sleep)
    executor = build_executor("first", tmp_path, connect)
    plan = build_plan(executor.world, "STOPPED")
    confirm = Executor._confirm

    def confirm_and_forget(self, *args, **kwargs):
        found = confirm(self, *args, **kwargs)
        self.world.client._capabilities = None
        connect.hangs = True
        return found

    monkeypatch.setattr(Executor, "_confirm", confirm_and_forget)

    result = executor.apply(plan)

    assert connect.sent == []
    assert [step.outcome for step in result.steps] == [Outcome.DID_NOT_HAPPEN]
    assert "nothing more was sent" in result.steps[0].error.message


def test_the_bound_from_the_intent_to_the_first_byte_is_one_constant():
    timing = ChangeTiming()
    assert timing.send_seconds == SEND_SECONDS == 20.0
    assert timing.quiet_seconds == timing.begin_seconds + SEND_SECONDS + timing.in_flight_seconds
    assert build_timing(600.0).send_seconds == SEND_SECONDS


@pytest.mark.parametrize("late", [False, True])
def test_the_last_attempt_is_sent_before_the_deadline(tmp_path, monkeypatch, late):
    """409s until shortly before the deadline, or beyond it: no attempt is later than the bound."""
    clock = Clock()
    connect = Connect(clock)
    connect.conflicts = 10_000 if late else 6
    confirmed: list[float] = []
    confirm = Executor._confirm

    def note(self, *args, **kwargs):
        confirmed.append(clock.now())
        return confirm(self, *args, **kwargs)

    monkeypatch.setattr(Executor, "_confirm", note)
    monkeypatch.setattr(caller_module.time, "sleep", clock.sleep)
    executor = build_executor("first", tmp_path, connect)

    executor.apply(build_plan(executor.world, "STOPPED"))

    assert len(connect.sent) > 6
    assert all(at - confirmed[0] <= SEND_SECONDS for _, _, at in connect.sent)
    assert connect.state == ("RUNNING" if late else "STOPPED")
