"""What a real Connect can't be brought to do on demand."""

from __future__ import annotations

import json
import threading
import time

import pytest

from seamark.connect.caller import Timing
from seamark.connect.client import ConnectClient
from seamark.connect.model import State
from seamark.connectors.model import Health, build_health
from seamark.core.offsets import Offset
from seamark.errors import (
    AuthenticationError,
    AuthorizationError,
    DeadlineError,
    NotFoundError,
    UnknownOutcomeError,
    UnreachableError,
    UnsettledError,
    UnsupportedError,
)
from tests.contract.connect.targets import Target
from tests.fakes.connect import (
    JDBC_SOURCE,
    Answer,
    Change,
    Delay,
    Drop,
    FakeConnect,
    Page,
    Raw,
    Redirect,
    texts,
)
from tests.fakes.connect.plugins import REFUSING_SOURCE

pytestmark = pytest.mark.fake_only
SOON = Timing(deadline_seconds=0.4, first_pause_seconds=0.01, longest_pause_seconds=0.05)
POSITION = {"partition": {"filename": "f"}, "offset": {"position": 5}}


def has(target: Target, name: str) -> bool:
    return name in target.raw("GET", "/connectors").json


@pytest.mark.quirk(1)
@pytest.mark.parametrize("text", [texts.NO_LEADER, texts.TWO_HOPS, texts.STALE], ids=["leader", "hops", "stale"])
def test_each_409_of_a_rebalance_passes(target: Target, fake: FakeConnect, text: str):
    name = target.name()
    fault = fake.faults.add(match="POST /connectors", times=3, do=Answer(409, text))
    target.client.create_connector(name, target.source_config())
    assert fault.hits == 3
    assert len(fake.asked("POST /connectors")) == 4


STORMED = {
    "fleet": lambda client: client.read_connectors(),
    "config": lambda client: client.read_config("x"),
    "create": lambda client: client.create_connector("x", {"a": "b"}),
    "delete": lambda client: client.delete_connector("x"),
    "stop": lambda client: client.stop("x"),
    "offsets": lambda client: client.patch_offsets("x", [Offset({"f": "a"}, {"p": 1})]),
}


@pytest.mark.quirk(1)
@pytest.mark.parametrize("kind", STORMED)
def test_a_storm_of_rebalances_ends_at_the_deadline(target: Target, fake: FakeConnect, kind: str):
    client = target.open(timing=SOON)
    client.read_capabilities()
    fault = fake.faults.storm()
    began = time.monotonic()
    with pytest.raises(DeadlineError) as caught:
        STORMED[kind](client)
    assert time.monotonic() - began < 5
    assert caught.value.exit_code == 6
    assert f"asked {fault.hits - len(fake.asked('GET /health'))} times" in caught.value.cause
    assert texts.STALE in caught.value.cause


@pytest.mark.quirk(2)
@pytest.mark.parametrize("path", ["", "/config"], ids=["info", "config"])
def test_a_rebalance_that_is_a_500_on_a_read_passes(target: Target, fake: FakeConnect, path: str):
    fake.add_connector("x")
    fault = fake.faults.add(match=f"GET /connectors/x{path}", times=2, do=Answer(500, texts.REBALANCE_EXPECTED))
    target.client.read_connector("x")
    target.client.read_config("x")
    assert fault.hits == 2


@pytest.mark.quirk(3)
@pytest.mark.parametrize("text", [texts.TIMED_OUT, texts.TIMED_OUT_BUSY], ids=["bare", "stage"])
def test_a_timeout_inside_connect_leaves_a_write_open(target: Target, fake: FakeConnect, text: str):
    name = target.name()
    fake.faults.add(match="POST /connectors", do=Answer(500, text, applied=True))
    with pytest.raises(UnknownOutcomeError) as caught:
        target.client.create_connector(name, target.source_config())
    assert len(fake.asked("POST /connectors")) == 1
    assert text in caught.value.cause
    assert has(target, name)


@pytest.mark.quirk(3)
def test_a_timeout_inside_connect_is_asked_again_by_a_read(target: Target, fake: FakeConnect):
    fake.add_connector("x")
    fault = fake.faults.add(match="GET /connectors/x/config", times=2, do=Answer(500, texts.TIMED_OUT))
    assert target.client.read_config("x")["name"] == "x"
    assert fault.hits == 2


@pytest.mark.quirk(3)
@pytest.mark.parametrize("applied", [False, True], ids=["before", "after"])
def test_a_connection_that_breaks_leaves_a_write_open(target: Target, fake: FakeConnect, *, applied: bool):
    name = target.name()
    fake.faults.add(match="POST /connectors", do=Drop(applied=applied))
    with pytest.raises(UnknownOutcomeError):
        target.client.create_connector(name, target.source_config())
    assert len(fake.asked("POST /connectors")) == 1
    assert has(target, name) is applied


def test_a_connection_that_breaks_is_nothing_to_a_read(target: Target, fake: FakeConnect):
    fake.add_connector("x")
    fake.faults.add(match="GET /connectors?*", times=1, do=Drop(applied=False))
    assert [connector.name for connector in target.client.read_connectors()] == ["x"]


@pytest.mark.parametrize("method", ["read", "write"])
def test_a_page_says_that_the_worker_starts(target: Target, fake: FakeConnect, method: str):
    fake.add_connector("x")
    fault = fake.faults.add(match="*", times=5, do=Page(404, "Not Found"))
    if method == "read":
        assert target.client.read_config("x")["name"] == "x"
    else:
        target.client.delete_connector("x")
    assert fault.hits == 5


def test_jettys_json_says_that_the_worker_starts_too(target: Target, fake: FakeConnect):
    fake.add_connector("x")
    body = json.dumps({"url": "/connectors/x/config", "status": "404", "message": "Not Found"}).encode()
    fault = fake.faults.add(match="*", times=3, do=Raw(404, body, "application/json"))
    assert target.client.read_config("x")["name"] == "x"
    assert fault.hits == 3


def test_a_redirect_is_not_followed(target: Target, fake: FakeConnect):
    with FakeConnect() as other:
        fake.faults.add(match="*", times=None, do=Redirect(other.urls[0] + "/connectors"))
        with pytest.raises(UnreachableError) as caught:
            target.client.read_connectors()
        with pytest.raises(UnknownOutcomeError):
            target.client.delete_connector("x")
        assert other.urls[0].removeprefix("http://") in caught.value.cause
        assert other.asked() == []


@pytest.mark.quirk(18)
def test_the_leaders_404_inside_a_followers_500_is_a_404(target: Target, fake: FakeConnect):
    text = texts.FORWARDED.format(text=texts.not_found("x"))
    fault = fake.faults.add(match="DELETE /connectors/x", times=None, do=Answer(500, text))
    with pytest.raises(NotFoundError):
        target.client.delete_connector("x")
    assert fault.hits == 2


@pytest.mark.quirk(18)
def test_a_follower_that_does_not_reach_the_leader_is_passed_over(target: Target, fake: FakeConnect):
    fake.add_connector("x")
    text = texts.FORWARDING_BROKE.format(reason="java.net.ConnectException: Connection refused")
    fault = fake.faults.add(match="DELETE *", times=None, do=Answer(500, text), worker=0)
    target.client.delete_connector("x")
    assert fault.hits == 1
    assert not has(target, "x")


@pytest.mark.quirk(18)
def test_a_write_that_broke_on_its_way_to_the_leader_is_left_open(target: Target, fake: FakeConnect):
    fake.add_connector("x")
    text = texts.FORWARDING_BROKE.format(reason="java.io.EOFException")
    fake.faults.add(match="DELETE *", do=Answer(500, text, applied=True), worker=0)
    with pytest.raises(UnknownOutcomeError):
        target.client.delete_connector("x")
    assert not has(target, "x")


LIES = {
    "unassigned after a rebalance": ("RUNNING", ["UNASSIGNED"], Health.UNASSIGNED),
    "running with a failed task": ("RUNNING", ["RUNNING", "FAILED"], Health.DEGRADED),
    "running with failed tasks only": ("RUNNING", ["FAILED"], Health.UNHEALTHY),
    "running without tasks": ("RUNNING", [], Health.UNHEALTHY),
    "a word nobody knows": ("BREWING", ["STEEPING"], Health.UNKNOWN),
}


@pytest.mark.quirk(10)
@pytest.mark.parametrize("lie", LIES)
def test_a_status_that_lies_is_seen_through(target: Target, fake: FakeConnect, lie: str):
    state, tasks, health = LIES[lie]
    fake.add_connector("x", state=state, tasks=tasks, task_traces=["java.lang.Boom"])
    (connector,) = target.client.read_connectors()
    assert build_health(connector.status) is health
    assert build_health(target.client.read_status("x")) is health


def test_a_failed_task_is_running_after_its_restart(target: Target, fake: FakeConnect):
    fake.add_connector("x", {"connector.class": JDBC_SOURCE}, tasks=["RUNNING", "FAILED"], task_traces=["", "Boom"])
    assert target.client.read_status("x").tasks[1].trace == "Boom"
    target.client.restart("x", include_tasks=True, only_failed=True)
    assert len(target.wait_until_running("x").tasks) == 2


def test_fields_that_a_newer_connect_adds_are_ignored(target: Target, fake: FakeConnect):
    fake.add_connector("x")

    def add(value):
        entry = value["x"]
        entry["info"]["zz"] = entry["status"]["connector"]["zz"] = entry["status"]["tasks"][0]["zz"] = {"a": [1]}
        return {**value, "y": {"info": None, "status": None, "zz": 1}}

    fake.faults.add(match="GET /connectors?*", do=Change(add))
    (connector,) = target.client.read_connectors()
    assert connector.name == "x"


@pytest.mark.quirk(5)
def test_a_fleet_of_ten_thousand_is_one_call(target: Target, fake: FakeConnect):
    fake.fill(10_000, config={f"key.{number}": "value" for number in range(20)})
    connectors = target.client.read_connectors()
    assert len(connectors) == 10_000
    assert all(build_health(connector.status) is Health.HEALTHY for connector in connectors)
    assert len(fake.asked("GET /connectors")) == 1


@pytest.mark.quirk(5)
def test_a_connector_that_hangs_does_not_hold_up_the_fleet(target: Target, fake: FakeConnect):
    fake.add_connector("slow")
    fault = fake.faults.add(match="GET /connectors/slow/config", do=Delay(6.0))
    thread = threading.Thread(target=lambda: target.client.read_config("slow"))
    thread.start()
    target.wait_for("the slow read is on its way", lambda: fault.hits, seconds=10)
    began = time.monotonic()
    assert len(target.client.read_connectors()) == 1
    assert time.monotonic() - began < 5
    thread.join(30)
    assert not thread.is_alive()


@pytest.mark.quirk(4)
def test_a_write_gets_longer_than_connect_needs_to_give_up(target: Target, fake: FakeConnect):
    assert Timing().herder_seconds > 90
    client = target.open(timing=Timing(read_seconds=0.2, deadline_seconds=0.3, herder_seconds=10.0))
    name = target.name()
    fake.faults.add(match="POST /connectors", do=Delay(0.6))
    client.create_connector(name, target.source_config())
    assert has(target, name)


@pytest.mark.quirk(6)
@pytest.mark.fake(status_lag_seconds=4.0)
def test_a_connector_without_status_is_left_out_of_the_fleet_and_has_none(target: Target):
    name = target.name()
    target.client.create_connector(name, target.source_config())
    assert target.client.read_connectors() == ()
    assert target.client.read_connector(name).status is None
    with pytest.raises(NotFoundError):
        target.client.read_status(name)
    target.wait_until_running(name)
    assert [connector.name for connector in target.client.read_connectors()] == [name]


@pytest.mark.quirk(6)
def test_a_worker_that_lags_behind_is_asked_again(target: Target, fake: FakeConnect):
    fake.add_connector("x")
    fault = fake.faults.add(match="GET /connectors/x/config", times=1, do=Answer(404, texts.not_found("x")))
    assert target.client.read_config("x")["name"] == "x"
    assert fault.hits == 1


@pytest.mark.quirk(7)
@pytest.mark.fake(status_lag_seconds=3.0)
def test_a_status_lingers_after_the_delete(target: Target):
    name = target.create_source()
    target.client.delete_connector(name)
    assert target.client.read_status(name).state is State.RUNNING
    assert target.raw("GET", f"/connectors/{name}/status").json["type"] == "unknown"
    target.wait_for("its status is gone", lambda: target.raw("GET", f"/connectors/{name}/status").status == 404)


@pytest.mark.quirk(21)
@pytest.mark.fake(workers=1, herder_wait_seconds=0.1)
def test_a_worker_that_starts_does_not_say_what_is_missing(target: Target, fake: FakeConnect):
    fake.add_connector("x")
    fake.restart()
    assert target.raw("GET", "/connectors").json == []
    assert target.raw("GET", "/connectors/x/status").status == 404
    health = target.raw("GET", "/health")
    assert (health.status, health.json["status"]) == (503, "starting")
    client = target.open(timing=SOON)
    with pytest.raises(UnsettledError):
        client.read_names()
    with pytest.raises(UnsettledError):
        client.read_status("x")
    fake.finish_start()
    assert client.read_names() == ("x",)


@pytest.mark.quirk(20)
@pytest.mark.fake(topic_tracking=False)
def test_topic_tracking_that_is_off_is_said(target: Target):
    answer = target.raw("GET", "/connectors/x/topics")
    assert (answer.status, answer.message) == (403, texts.TOPIC_TRACKING_OFF)
    with pytest.raises(UnsupportedError):
        target.client.read_topics("x")


@pytest.mark.quirk(12)
def test_a_zombie_sink_task_is_waited_for(target: Target, fake: FakeConnect):
    fake.add_connector("x", state="STOPPED", offsets=[POSITION])
    fault = fake.faults.add(match="DELETE /connectors/x/offsets", times=2, do=Answer(500, texts.zombie("reset", "x")))
    target.client.delete_offsets("x")
    assert fault.hits == 2
    assert target.client.read_offsets("x") == ()


@pytest.mark.quirk(12)
def test_a_zombie_that_stays_leaves_the_outcome_open(target: Target, fake: FakeConnect):
    fake.add_connector("x", state="STOPPED")
    fake.faults.add(match="PATCH *", times=None, do=Answer(500, texts.zombie("alter", "x")))
    with pytest.raises(UnknownOutcomeError) as caught:
        target.open(timing=SOON).patch_offsets("x", [Offset({"filename": "f"}, {"position": 1})])
    assert "restart the worker" in caught.value.hint


@pytest.mark.quirk(14)
def test_a_plugin_that_did_not_look_is_noticed(target: Target, fake: FakeConnect):
    fake.add_connector("x", {"connector.class": JDBC_SOURCE}, state="STOPPED")
    change = target.client.patch_offsets("x", [Offset({"table": "t"}, {"incrementing": 5})])
    assert change.may_be_external
    assert target.client.read_offsets("x") == (Offset({"table": "t"}, {"incrementing": 5}),)


@pytest.mark.quirk(14)
def test_a_plugin_that_refuses_is_unsupported_and_nothing_is_changed(target: Target, fake: FakeConnect):
    fake.add_connector("x", {"connector.class": REFUSING_SOURCE}, state="STOPPED", offsets=[POSITION])
    with pytest.raises(UnsupportedError):
        target.client.delete_offsets("x")
    assert len(target.client.read_offsets("x")) == 1


@pytest.mark.fake(username="ops", password="hunter22")
def test_who_is_not_known_is_not_let_in(target: Target, fake: FakeConnect):
    for username, password in ((None, None), ("ops", "wrong")):
        with ConnectClient(fake.urls, username=username, password=password) as client:
            with pytest.raises(AuthenticationError) as caught:
                client.read_connectors()
            assert caught.value.exit_code == 4
    with ConnectClient(fake.urls, username="ops", password="hunter22") as client:
        assert client.read_connectors() == ()


def test_who_is_known_may_still_not_be_allowed(target: Target, fake: FakeConnect):
    fake.faults.add(match="DELETE *", do=Raw(403, b"Forbidden", "text/plain"))
    with pytest.raises(AuthorizationError):
        target.client.delete_connector("x")


def test_a_worker_that_dies_is_passed_over(target: Target, fake: FakeConnect):
    fake.add_connector("x")
    target.client.read_connectors()
    fake.kill(0)
    assert len(target.client.read_connectors()) == 1
    target.client.delete_connector("x")
    fake.kill(1)
    with pytest.raises(UnreachableError):
        target.open(timing=SOON).read_connectors()


@pytest.mark.quirk(17)
def test_the_oldest_worker_decides_what_can_be_asked(target: Target, fake: FakeConnect):
    with FakeConnect(version="3.5.2") as old:
        client = target.open(urls=[*target.urls, *old.urls])
        assert client.read_capabilities().words == "3.5.2"
        with pytest.raises(UnsupportedError):
            client.delete_offsets("x")
        assert fake.asked("DELETE") == []


@pytest.mark.fake(clock_skew_seconds=-120.0)
def test_a_clock_that_is_behind_is_noticed(target: Target):
    for worker in target.client.read_workers():
        assert worker.clock_skew_seconds == pytest.approx(-119.5, abs=1.0)


def test_an_answer_that_is_not_connects_is_an_error(target: Target, fake: FakeConnect):
    fake.faults.add(match="GET /connectors?*", times=1, do=Raw(200, b"<html>log in</html>", "text/html"))
    with pytest.raises(UnreachableError):
        target.client.read_connectors()
    fake.faults.add(match="GET /connectors?*", times=1, do=Raw(200, b"{", "application/json"))
    with pytest.raises(UnreachableError):
        target.client.read_connectors()


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_an_answer_without_words_is_asked_again_by_a_read_and_left_open_by_a_write(
    target: Target, fake: FakeConnect, status: int
):
    fake.add_connector("x")
    fault = fake.faults.add(match="*", times=2, do=Raw(status))
    assert target.client.read_config("x")["name"] == "x"
    assert fault.hits == 2
    fake.faults.add(match="DELETE *", times=1, do=Raw(status, applied=True))
    with pytest.raises(UnknownOutcomeError):
        target.client.delete_connector("x")
    assert not has(target, "x")
