"""FakeConnect's own promises; what it shares with a real Connect is in tests/contract."""

from __future__ import annotations

import threading

import pytest

from seamark.connect.caller import Timing
from seamark.connect.client import ConnectClient
from seamark.errors import DevstackError, NotFoundError, UnreachableError, UnsupportedError
from tests.fakes.connect import Answer, Change, FakeConnect, Page, texts

SOON = Timing(deadline_seconds=0.3, first_pause_seconds=0.01, longest_pause_seconds=0.02)


def test_it_leaves_no_thread_and_no_port():
    before = threading.active_count()
    with FakeConnect(workers=3) as fake, ConnectClient(fake.urls, timing=SOON) as client:
        assert [worker.is_up for worker in client.read_workers()] == [True] * 3
    with ConnectClient(fake.urls, timing=SOON) as client, pytest.raises(UnreachableError):
        client.read_connectors()
    for thread in threading.enumerate():
        if "process_request_thread" in thread.name:
            thread.join(5)
    assert threading.active_count() <= before


def test_a_fault_of_the_fake_itself_is_not_taken_for_an_answer():
    fake = FakeConnect()
    fake.faults.add(match="*", times=None, do=Change(lambda _: 1 / 0))
    with fake, ConnectClient(fake.urls, timing=SOON) as client:
        with pytest.raises(UnreachableError):
            client.read_connectors()
        with pytest.raises(DevstackError, match="FakeConnect is broken"):
            fake.__exit__(None, None, None)


def test_faults_happen_in_their_order_and_on_their_worker():
    with FakeConnect(workers=2) as fake, ConnectClient(fake.urls[1:], timing=SOON) as client:
        fake.add_connector("x")
        elsewhere = fake.faults.add(match="*", times=None, do=Page(), worker=0)
        first = fake.faults.add(match="GET *", times=1, do=Answer(409, texts.STALE))
        second = fake.faults.add(match="GET *", times=1, do=Answer(500, texts.REBALANCE_EXPECTED))
        assert client.read_config("x")["name"] == "x"
        assert (elsewhere.hits, first.hits, second.hits) == (0, 1, 1)
        assert [recorded.status for recorded in fake.requests] == [409, 500, 200]


def test_a_connect_before_3_5_has_neither_stop_nor_offsets():
    with FakeConnect(version="3.4.1") as fake, ConnectClient(fake.urls, timing=SOON) as client:
        fake.add_connector("x")
        with pytest.raises(UnsupportedError):
            client.stop("x")
        with pytest.raises(UnsupportedError):
            client.read_offsets("x")
        # A read is sent, and its 404 explained by the version; a write isn't.
        assert fake.asked("/connectors") == ["GET /connectors/x/offsets"]
        client.pause("x")
        assert client.read_status("x").state == "PAUSED"


def test_connectors_can_be_put_there_in_any_state():
    with FakeConnect() as fake, ConnectClient(fake.urls, timing=SOON) as client:
        fake.add_connector("x", state="FAILED", tasks=["FAILED", "RUNNING"], trace="Boom", task_traces=["Bang"])
        status = client.read_status("x")
        assert (status.state, status.trace) == ("FAILED", "Boom")
        assert [(task.state, task.trace) for task in status.tasks] == [("FAILED", "Bang"), ("RUNNING", "")]
        fake.fill(3)
        assert len(client.read_connectors()) == 4
        client.delete_connector("x")
        with pytest.raises(NotFoundError):
            client.read_config("x")
