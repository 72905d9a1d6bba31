"""Many who look at configs at once share one reading; nobody gets an answer that is older than his question."""

from __future__ import annotations

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from seamark.connect.client import ConnectClient
from seamark.connect.shared_reads import SharedConfigReads, SharedReading, SharedStatusReads
from seamark.errors import NotFoundError
from tests.fakes.connect import FakeConnect

READERS = 8


class Cluster:
    """Counts the readings. The first single one waits until it is let go."""

    def __init__(self):
        self.near = {"a": {"key": "1"}}
        self.far = {"a": {"key": "1"}}
        self.singles = []
        self.lists = []
        self.is_let_go = threading.Event()
        self.is_asked = threading.Event()

    def read_one(self, name):
        self.singles.append(name)
        self.is_asked.set()
        assert self.is_let_go.wait(10)
        return self.near[name]

    def read_all(self, *, elsewhere):
        self.lists.append(elsewhere)
        return {name: dict(config) for name, config in (self.far if elsewhere else self.near).items()}


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def board(cluster):
    return SharedConfigReads(cluster.read_one, cluster.read_all)


def keep_busy(board, cluster, pool):
    """Somebody is asking already, and waits for his answer."""
    job = pool.submit(board.read, "a")
    assert cluster.is_asked.wait(10)
    return job


def test_who_is_alone_asks_for_his_own(board, cluster):
    cluster.is_let_go.set()
    assert board.read("a") == {"key": "1"}
    assert (cluster.singles, cluster.lists) == (["a"], [])


def test_the_second_takes_the_list_and_sees_what_is_there_now(board, cluster):
    with ThreadPoolExecutor(1) as pool:
        job = keep_busy(board, cluster, pool)
        assert board.read("a") == {"key": "1"}
        cluster.near["a"]["key"] = "2"
        assert board.read("a") == {"key": "2"}
        cluster.is_let_go.set()
        assert job.result(10) == {"key": "2"}
    assert cluster.lists == [False, False]
    assert board.read("a") == {"key": "2"}
    assert cluster.singles == ["a"], "a moment later the list is still the better way"


def test_what_one_worker_does_not_know_is_asked_of_another(board, cluster):
    cluster.far["new"] = {"key": "3"}
    with ThreadPoolExecutor(1) as pool:
        keep_busy(board, cluster, pool)
        assert board.read("new") == {"key": "3"}
        with pytest.raises(NotFoundError, match="no connector gone"):
            board.read("gone")
        cluster.is_let_go.set()
    assert cluster.lists == [False, True, False, True]


def test_many_readers_share_few_lists(cluster, board):
    gate = threading.Barrier(READERS)
    slow = threading.Event()

    def read_all(*, elsewhere):
        slow.wait(0.05)
        return cluster.read_all(elsewhere=elsewhere)

    shared = SharedConfigReads(cluster.read_one, read_all)

    def read(_):
        gate.wait(10)
        return shared.read("a")

    cluster.is_let_go.set()
    with ThreadPoolExecutor(READERS) as pool:
        assert list(pool.map(read, range(READERS))) == [{"key": "1"}] * READERS
    # One is under way when the others come; the next serves all of them.
    assert len(cluster.lists) <= 3


def test_client_shares_readings_and_survives_a_dead_worker():
    with FakeConnect(workers=2) as fake, ConnectClient(fake.urls) as client:
        for number in range(READERS):
            fake.add_connector(f"c{number}", {"topic": f"t{number}"})
        fake.kill(1)
        with ThreadPoolExecutor(READERS) as pool:
            for _ in range(3):
                found = list(pool.map(client.read_config, [f"c{number}" for number in range(READERS)]))
                assert [config["topic"] for config in found] == [f"t{number}" for number in range(READERS)]
            names = [f"gone{number}" for number in range(READERS)]
            failed = [pool.submit(client.read_config, name).exception(10) for name in names]
        assert {type(error) for error in failed} == {NotFoundError}
        assert len(fake.asked("expand=info")) >= 1


def test_between_two_readings_is_a_rest_in_proportion():
    begun = []

    def read_all():
        begun.append(time.monotonic())
        time.sleep(0.05)
        return {"a": 1}

    reading = SharedReading(read_all)
    for _ in range(3):
        assert reading.read() == {"a": 1}
    assert [later - earlier >= 0.19 for earlier, later in itertools.pairwise(begun)] == [True, True]


class Statuses:
    def __init__(self):
        self.single = []
        self.lists = 0

    def read_status(self, name):
        self.single.append(name)
        return f"status of {name}"

    def read_statuses(self):
        self.lists += 1
        return {"a": "status of a"}


def test_one_who_asks_for_a_status_gets_a_single_answer():
    port = Statuses()
    assert SharedStatusReads(port).read("a") == "status of a"
    assert (port.single, port.lists) == (["a"], 0)


def test_many_who_ask_for_a_status_share_a_reading():
    port, gate = Statuses(), threading.Event()
    port.read_status = lambda name: gate.wait(10) and f"status of {name}"
    board = SharedStatusReads(port)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(board.read, "b")
        while not board._asking:
            time.sleep(0.001)
        assert board.read("a") == "status of a"
        with pytest.raises(NotFoundError, match="no status of gone"):
            board.read("gone")
        gate.set()
        assert first.result(10) == "status of b"
    assert port.lists == 2
