"""The client over a scripted network: fail-over, deadlines, and what it never repeats."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from itertools import count

import httpx2
import pytest

from seamark.connect import requests
from seamark.connect.caller import Timing
from seamark.connect.client import ConnectClient
from seamark.connect.transport import Transport
from seamark.core.offsets import Offset
from seamark.errors import (
    AlreadyExistsError,
    DeadlineError,
    InvalidSettingError,
    MissingSettingError,
    NotFoundError,
    RejectedError,
    UnknownOutcomeError,
    UnreachableError,
    UnsupportedError,
    UsageError,
)

FAST = Timing(deadline_seconds=0.3, first_pause_seconds=0.005, longest_pause_seconds=0.02)
STALE = (
    "Cannot complete request momentarily due to stale configuration (typically caused by a concurrent config change)"
)
ROOT = {"version": "4.3.1", "commit": "c", "kafka_cluster_id": "k"}
HEALTH = {"status": "healthy", "message": "Worker has completed startup and is ready to handle requests."}
INFO = {"name": "x", "config": {"name": "x"}, "tasks": [], "type": "source"}
URLS = ("http://one:1", "http://two:2")


def connect_error(status, message):
    return httpx2.Response(status, json={"error_code": status, "message": message})


class Network:
    """Answers by host and keeps what was asked. Every worker that can be reached has started."""

    def __init__(self, answers):
        self.answers = answers
        self.asked = []
        self.bodies = []

    def __call__(self, request):
        is_reachable = not isinstance(self.answers.get(request.url.host), Exception)
        if request.url.path == "/health" and is_reachable:
            return httpx2.Response(200, json=HEALTH)
        self.asked.append((request.url.host, request.method, request.url.raw_path.decode()))
        self.bodies.append(request.read())
        answer = self.answers.get(request.url.host)
        if callable(answer):
            answer = answer(request)
        if isinstance(answer, Exception):
            raise answer
        return answer if answer is not None else httpx2.Response(200, json=ROOT)

    def hosts(self):
        return [host for host, _, _ in self.asked]


def open_client(answers, *, urls=URLS, timing=FAST, **more):
    network = Network(answers)
    return ConnectClient(urls, cluster="game", timing=timing, transport=httpx2.MockTransport(network), **more), network


REFUSED = httpx2.ConnectError("[Errno 111] Connection refused")


def test_a_dead_first_worker_is_passed_over_and_the_good_one_remembered():
    client, network = open_client({"one": REFUSED, "two": httpx2.Response(200, json={"a": "1"})})
    assert client.read_config("x") == {"a": "1"}
    assert client.read_config("x") == {"a": "1"}
    assert network.hosts() == ["one", "two", "two"]


def test_a_write_goes_on_to_the_next_worker_when_nothing_was_sent():
    client, network = open_client({"one": REFUSED, "two": httpx2.Response(201, json=INFO)})
    assert client.create_connector("x", {}).name == "x"
    assert network.hosts() == ["one", "two"]


@pytest.mark.parametrize(
    "failure",
    [
        httpx2.ReadTimeout("timed out"),
        httpx2.RemoteProtocolError("Server disconnected without sending a response."),
        httpx2.ReadError("reset"),
        httpx2.WriteError("broken pipe"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_write_that_may_have_arrived_is_sent_once_and_unknown(failure):
    client, network = open_client({"one": failure, "two": httpx2.Response(201, json=INFO)})
    with pytest.raises(UnknownOutcomeError) as caught:
        client.create_connector("x", {})
    assert network.hosts() == ["one"]
    assert caught.value.exit_code == 1
    assert "create connector x" in caught.value.message
    assert "check the state" in caught.value.hint


def test_a_read_that_broke_off_is_asked_of_the_next_worker():
    client, network = open_client({"one": httpx2.ReadError("reset"), "two": httpx2.Response(200, json={})})
    assert client.read_config("x") == {}
    assert network.hosts() == ["one", "two"]


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.read_config("x"),
        lambda client: client.read_connectors(),
        lambda client: client.put_config("x", {"a": "1"}),
        lambda client: client.create_connector("x", {"a": "1"}),
        lambda client: client.delete_connector("x"),
        lambda client: client.pause("x"),
        lambda client: client.restart("x"),
        lambda client: client.restart_task("x", 0),
    ],
    ids=["config", "fleet", "put", "create", "delete", "pause", "restart", "task"],
)
def test_a_storm_of_rebalances_ends_at_the_deadline(call):
    # Long enough that a busy machine asks some times too.
    timing = Timing(deadline_seconds=1.0, first_pause_seconds=0.005, longest_pause_seconds=0.02)
    client, network = open_client({"one": connect_error(409, STALE)}, urls=("http://one:1",), timing=timing)
    began = time.monotonic()
    with pytest.raises(DeadlineError) as caught:
        call(client)
    assert time.monotonic() - began < 5
    assert caught.value.exit_code == 6
    assert f"asked {len(network.asked)} times" in caught.value.cause
    assert STALE in caught.value.cause
    assert len(network.asked) > 3


def test_a_rebalance_that_passes_is_waited_for():
    numbers = count()
    client, network = open_client(
        {"one": lambda _: connect_error(409, STALE) if next(numbers) < 3 else httpx2.Response(204)}
    )
    client.delete_connector("x")
    assert network.hosts() == ["one"] * 4


def test_a_timeout_inside_connect_is_unknown_to_a_write_and_repeated_by_a_read():
    client, network = open_client({"one": connect_error(500, "Request timed out")}, urls=("http://one:1",))
    with pytest.raises(UnknownOutcomeError):
        client.put_config("x", {})
    assert len(network.asked) == 1
    with pytest.raises(DeadlineError):
        client.read_config("x")
    assert len(network.asked) > 2


def test_nobody_there_is_told_soon_and_names_every_worker():
    client, network = open_client({"one": REFUSED, "two": REFUSED}, timing=Timing(deadline_seconds=60))
    began = time.monotonic()
    with pytest.raises(UnreachableError) as caught:
        client.read_connectors()
    assert time.monotonic() - began < 5
    # First for its health, then for the list.
    assert network.hosts() == ["one", *["one", "two"] * 2]
    assert "http://one:1" in caught.value.cause
    assert "http://two:2" in caught.value.cause
    assert caught.value.exit_code == 6


def test_a_missing_connector_is_asked_twice_before_it_is_believed():
    client, network = open_client({host: connect_error(404, "Connector x not found") for host in ("one", "two")})
    with pytest.raises(NotFoundError):
        client.read_config("x")
    # Then the one that is known to have started is asked.
    assert network.hosts() == ["one", "two", "one", "one"]


def test_a_worker_that_lags_does_not_hide_a_connector():
    client, network = open_client(
        {"one": connect_error(404, "Connector x not found"), "two": httpx2.Response(200, json={"a": "1"})}
    )
    assert client.read_config("x") == {"a": "1"}
    assert network.hosts() == ["one", "two"]


def test_an_existing_connector_is_not_waited_for():
    client, network = open_client({"one": connect_error(409, "Connector x already exists")})
    with pytest.raises(AlreadyExistsError):
        client.create_connector("x", {})
    assert len(network.asked) == 1


def test_zombie_sink_tasks_are_waited_for_and_leave_the_outcome_open():
    text = (
        "Failed to alter consumer group offsets for connector x either because its tasks haven't stopped completely "
        "yet ... this operation can be safely retried. ... zombie sink tasks."
    )
    client, network = open_client(
        {"one": lambda r: connect_error(500, text) if r.method == "PATCH" else None}, urls=("http://one:1",)
    )
    with pytest.raises(UnknownOutcomeError) as caught:
        client.patch_offsets("x", [Offset({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 1})])
    assert len(network.asked) > 3
    assert "restart the worker" in caught.value.hint


PARTIAL = (
    "Failed to alter consumer group offsets for connector x either because its tasks haven't stopped completely yet "
    "... this operation can be safely retried. ... zombie sink tasks."
)


@pytest.mark.parametrize(
    "second",
    [
        connect_error(400, "Connectors must be in the STOPPED state before their offsets can be modified."),
        connect_error(401, "who are you"),
        connect_error(403, "no"),
        connect_error(404, "Connector x not found"),
        connect_error(409, "Connector x already exists"),
        connect_error(409, STALE),
        connect_error(500, "Offsets may only contain primitive types"),
        connect_error(500, "Unexpected failure"),
        REFUSED,
    ],
    ids=["400", "401", "403", "404", "409 exists", "409 until the deadline", "500 rejected", "500", "unreachable"],
)
def test_a_call_that_may_have_acted_is_unknown_whatever_the_last_answer_was(second):
    answers = iter([connect_error(500, PARTIAL)])
    client, network = open_client(
        {"one": lambda r: next(answers, second) if r.method == "PATCH" else None}, urls=("http://one:1",)
    )

    with pytest.raises(UnknownOutcomeError) as caught:
        client.patch_offsets("x", [Offset({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 1})])

    assert len([method for _, method, _ in network.asked if method == "PATCH"]) > 1
    assert "500 Failed to alter consumer group offsets" in caught.value.cause


def test_a_call_that_was_done_after_a_partial_answer_is_done():
    answers = iter([connect_error(500, PARTIAL)])
    done = httpx2.Response(200, json={"message": "The offsets for this connector have been altered successfully"})
    client, _ = open_client({"one": lambda r: next(answers, done) if r.method == "PATCH" else None})

    client.patch_offsets("x", [Offset({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 1})])


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.patch_offsets("x", [Offset({"f": "a"}, {"p": 1})]),
        lambda client: client.delete_offsets("x"),
        lambda client: client.create_connector("x", {}, initial_state="STOPPED"),
        lambda client: client.set_logger("root", "INFO", scope="cluster"),
        lambda client: client.patch_config("x", {"a": "b"}),
    ],
    ids=["patch", "reset", "initial state", "cluster logger", "patch config"],
)
def test_what_a_worker_is_too_old_for_is_not_sent(call):
    old = httpx2.Response(200, json={**ROOT, "version": "3.5.2"})
    client, network = open_client({"two": old})
    with pytest.raises(UnsupportedError):
        call(client)
    assert {path for _, _, path in network.asked} == {"/"}


def test_capabilities_are_asked_once_a_minute_and_not_with_every_call():
    client, network = open_client({})
    assert client.read_capabilities().version == (4, 3)
    assert client.read_capabilities().version == (4, 3)
    assert len(network.asked) == 2


def test_a_405_that_comes_all_the_same_is_unsupported():
    client, _ = open_client({"one": lambda r: connect_error(405, "HTTP 405") if r.method == "PATCH" else None})
    with pytest.raises(UnsupportedError):
        client.patch_config("x", {"a": "b"})


def test_workers_that_do_not_answer_say_why():
    page = httpx2.Response(200, html="<html>login</html>")
    client, _ = open_client(
        {"one": REFUSED, "two": page, "three": httpx2.Response(200, json=ROOT), "four": connect_error(401, "no")},
        urls=("http://one:1", "http://two:1", "http://three:1", "http://four:1"),
    )
    one, two, three, four = client.read_workers()
    assert "refused" in one.error
    assert not two.is_up
    assert (three.version, three.kafka_cluster_id, three.error) == ("4.3.1", "k", "")
    assert "401" in four.error


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_never_followed(status):
    away = httpx2.Response(status, headers={"location": "http://user:pw@evil.example:5432/connectors"})
    client, network = open_client({"one": away}, username="ops", password="pw")
    with pytest.raises(UnreachableError) as caught:
        client.read_connectors()
    assert network.hosts() == ["one"]
    assert "evil.example:5432" in caught.value.cause
    assert "user:pw" not in caught.value.cause


@pytest.mark.parametrize("location", ["http://user:pw@evil.example[:81", "//evil]"])
def test_a_redirect_to_an_invalid_address_is_an_error_like_any_other(location):
    client, _ = open_client({"one": httpx2.Response(302, headers={"location": location})})
    with pytest.raises(UnreachableError) as caught:
        client.read_connectors()
    assert "redirect to an invalid address" in caught.value.cause


def test_credentials_go_as_basic_auth_and_into_no_message():
    seen = []

    def answer(request):
        seen.append(request.headers.get("authorization"))
        return connect_error(400, "no")

    client, _ = open_client({"one": answer}, username="ops", password="hunter22")
    with pytest.raises(RejectedError) as caught:
        client.put_config("x", {})
    assert seen == ["Basic " + base64.b64encode(b"ops:hunter22").decode()]
    assert "hunter22" not in json.dumps(caught.value.as_dict()) + repr(client)


def test_the_environment_names_no_proxy(monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://evil.example:1")
    with ConnectClient(["http://127.0.0.1:1"], timing=FAST) as client, pytest.raises(UnreachableError) as caught:
        client.read_connectors()
    assert "evil" not in caught.value.cause


def test_an_answer_too_large_is_cut_off():
    handler = httpx2.MockTransport(lambda _: httpx2.Response(200, content=b"[" + b" " * 5000))
    with Transport(("http://one:1",), transport=handler, max_answer_bytes=1000) as transport:
        failure = transport.send("http://one:1", requests.fleet(), connect_seconds=1, read_seconds=1)
    assert failure.phase == "too large"


class Trickle(httpx2.SyncByteStream):
    def __iter__(self):
        for _ in range(1000):
            time.sleep(0.01)
            yield b" "


def test_a_worker_that_trickles_is_left_at_the_deadline():
    client, _ = open_client({"one": httpx2.Response(200, stream=Trickle())}, urls=("http://one:1",))
    began = time.monotonic()
    with pytest.raises(DeadlineError):
        client.read_connectors()
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("body", ["", "[]", "null", '{"name": 1}', "{"])
def test_a_json_answer_of_the_wrong_shape_is_an_error(body):
    answer = httpx2.Response(200, text=body, headers={"content-type": "application/json"})
    client, _ = open_client({"one": answer})
    with pytest.raises(UnreachableError):
        client.read_status("x")
    with pytest.raises(UnknownOutcomeError):
        client.put_config("x", {})


def test_a_connector_without_status_is_still_a_connector():
    def answer(request):
        if request.url.path.endswith("/status"):
            return connect_error(404, "No status found for connector x")
        return httpx2.Response(200, json=INFO)

    client, _ = open_client({"one": answer, "two": answer})
    assert client.read_connector("x").status is None


def test_the_fleet_is_one_call():
    client, network = open_client({"one": httpx2.Response(200, json={"x": {"info": INFO}})})
    assert [c.owner for c in client.read_connectors()] == ["game/x"]
    assert network.asked == [("one", "GET", "/connectors?expand=info&expand=status")]


def test_many_threads_share_one_client():
    # Each of them asks by itself: for configs and statuses many would share one answer.
    client, network = open_client({"one": REFUSED, "two": httpx2.Response(200, json=["x"])})
    found = []
    threads = [threading.Thread(target=lambda: found.append(list(client.read_names()))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert found == [["x"]] * 16
    assert 16 <= network.hosts().count("two") <= 32


@pytest.mark.parametrize(
    "url", ["", "connect:8083", "ftp://x", "file:///etc/passwd", "http://", "http://[bad", "http://h:99999"]
)
def test_urls_that_are_none_are_refused(url):
    with pytest.raises(InvalidSettingError):
        ConnectClient([url])


def test_a_url_with_credentials_is_refused_without_naming_them():
    with pytest.raises(InvalidSettingError) as caught:
        ConnectClient(["http://ops:hunter22@h:1"])
    assert "hunter22" not in str(caught.value.as_dict())


def test_no_url_is_refused():
    with pytest.raises(MissingSettingError):
        ConnectClient([])


def test_a_path_in_the_url_is_kept_and_a_trailing_slash_is_not():
    client, network = open_client({"one": httpx2.Response(200, json={})}, urls=("http://one:1/team/connect/",))
    client.read_config("x")
    assert network.asked == [("one", "GET", "/team/connect/connectors/x/config")]


def test_a_ca_file_that_is_none_is_refused(tmp_path):
    path = tmp_path / "ca.pem"
    path.write_text("not a certificate")
    with pytest.raises(InvalidSettingError, match=r"ca\.pem"):
        ConnectClient(["https://h:1"], ca_file=str(path))
    with pytest.raises(InvalidSettingError):
        ConnectClient(["https://h:1"], ca_file=str(tmp_path / "none.pem"))


def test_verification_can_be_switched_off_but_is_on_by_itself(monkeypatch):
    made = []
    original = ssl.create_default_context

    def spy(*args, **more):
        context = original(*args, **more)
        made.append(context)
        return context

    monkeypatch.setattr(ssl, "create_default_context", spy)
    ConnectClient(["https://h:1"]).close()
    ConnectClient(["https://h:1"], verify=False).close()
    assert [context.verify_mode for context in made] == [ssl.CERT_REQUIRED, ssl.CERT_NONE]


@pytest.mark.parametrize("status", [404, 405])
def test_read_that_a_worker_is_too_old_for_is_explained_by_its_version(status):
    def answer(request):
        if request.url.path.endswith("/offsets"):
            return connect_error(status, f"HTTP {status}")
        return httpx2.Response(200, json={**ROOT, "version": "3.4.0"})

    client, network = open_client({"one": answer}, urls=("http://one:1",))
    with pytest.raises(UnsupportedError) as caught:
        client.read_offsets("x")
    assert "3.5" in f"{caught.value.message} {caught.value.cause} {caught.value.hint}"
    paths = [path for _, _, path in network.asked]
    assert paths[0] == "/connectors/x/offsets"
    assert paths[-1] == "/"


@pytest.mark.parametrize(("second", "wanted"), [((), {}), (("a",), {"a": None})], ids=["forgotten", "lasting"])
def test_null_offset_is_told_only_when_a_second_answer_holds_it_too(second, wanted):
    answers = iter([("a",), second])

    def answer(request):
        if not request.url.path.endswith("/offsets"):
            return None
        found = [{"partition": {"file": file}, "offset": None} for file in next(answers)]
        return httpx2.Response(200, json={"offsets": found})

    client, _ = open_client({"one": answer, "two": answer})
    assert {one.partition["file"]: one.offset for one in client.read_offsets("x")} == wanted


@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan")])
@pytest.mark.parametrize("name", ["deadline_seconds", "herder_seconds", "connect_seconds", "rounds"])
def test_no_limit_can_be_switched_off(name, value):
    with pytest.raises(UsageError, match=name):
        Timing(**{name: value})


def test_pauses_double_up_to_the_longest():
    pauses = FAST.pauses()
    found = [next(pauses) for _ in range(8)]
    assert all(0.0025 <= pause <= 0.02 for pause in found)
    assert max(found[4:]) > max(found[:1])
