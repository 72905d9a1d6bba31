"""An answer that something is missing counts only from a worker that has read its config topic."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager

import pytest

from seamark.connect.caller import Timing
from seamark.connect.client import ConnectClient
from seamark.errors import NotFoundError, UnreachableError, UnsettledError
from tests.fakes.connect import Answer, FakeConnect, Raw, texts

SHORT = Timing(deadline_seconds=0.6, first_pause_seconds=0.02, longest_pause_seconds=0.1)
LONG = Timing(deadline_seconds=20.0, first_pause_seconds=0.02, longest_pause_seconds=0.1)
NAMES = ("a", "b", "c")
VERSIONS = ("4.3.1", "3.5.2")
LISTS = {
    "names": lambda client: client.read_names(),
    "connectors": lambda client: [found.name for found in client.read_connectors()],
    "statuses": lambda client: client.read_statuses(),
}
MISSING = {
    "status": lambda client: client.read_status("a"),
    "config": lambda client: client.read_config("a"),
    "connector": lambda client: client.read_connector("a"),
    "offsets": lambda client: client.read_offsets("a"),
}


@pytest.fixture(params=VERSIONS)
def fake(request):
    with FakeConnect(version=request.param, herder_wait_seconds=0.1) as started:
        for name in NAMES:
            started.add_connector(name)
        yield started


@pytest.fixture
def pair():
    with FakeConnect(workers=2, herder_wait_seconds=0.1) as started:
        for name in NAMES:
            started.add_connector(name)
        yield started


def finish_later(fake, *, seconds=0.5, worker=0):
    timer = threading.Timer(seconds, fake.finish_start, [worker])
    timer.daemon = True
    timer.start()


@contextmanager
def open_client(fake, timing=SHORT, **more):
    with ConnectClient(fake.urls, cluster="game", timing=timing, **more) as client:
        yield client


@pytest.mark.parametrize("read", LISTS.values(), ids=LISTS)
@pytest.mark.parametrize("known", [(), ("a",)], ids=["empty", "partial"])
def test_a_list_of_a_starting_worker_is_refused(fake, read, known):
    fake.restart(known=known)
    with open_client(fake) as client, pytest.raises(UnsettledError) as caught:
        read(client)
    assert "has read its config topic" in caught.value.message
    assert fake.urls[0] in caught.value.cause
    assert caught.value.hint.startswith("wait")


@pytest.mark.parametrize("read", LISTS.values(), ids=LISTS)
def test_a_list_is_read_once_the_worker_has_started(fake, read):
    fake.restart(known=["a"])
    finish_later(fake)
    with open_client(fake, LONG) as client:
        assert sorted(read(client)) == list(NAMES)


@pytest.mark.parametrize("read", MISSING.values(), ids=MISSING)
def test_nothing_is_missing_by_the_answer_of_a_starting_worker(fake, read):
    fake.restart()
    with open_client(fake) as client, pytest.raises(UnreachableError) as caught:
        read(client)
    assert not isinstance(caught.value, NotFoundError)


@pytest.mark.parametrize("read", MISSING.values(), ids=MISSING)
def test_a_connector_is_missing_by_the_answer_of_a_worker_that_has_started(fake, read):
    fake.state.connectors.clear()
    with open_client(fake) as client, pytest.raises(NotFoundError):
        read(client)


def test_a_status_is_read_once_the_worker_has_started(fake):
    fake.restart()
    finish_later(fake)
    with open_client(fake, LONG) as client:
        assert client.read_status("a").state == "RUNNING"


def test_no_topics_of_a_starting_worker_are_refused(fake):
    fake.state.used_topics["a"] = {"t"}
    with open_client(fake) as client:
        assert client.read_topics("a") == ("t",)
        fake.restart()
        with pytest.raises(UnsettledError):
            client.read_topics("a")


def test_an_empty_cluster_is_empty(fake):
    fake.state.connectors.clear()
    with open_client(fake) as client:
        assert client.read_names() == ()
        assert client.read_connectors() == ()


def test_another_worker_that_has_started_is_asked(pair):
    pair.restart(0, known=["a"])
    with open_client(pair) as client:
        assert sorted(client.read_names()) == list(NAMES)
        assert client.read_status("b").state == "RUNNING"


def test_a_worker_that_has_started_is_asked_for_its_health_once(fake):
    with open_client(fake) as client:
        for _ in range(5):
            assert len(client.read_names()) == 3
    proofs = [line for line in fake.asked() if line != "GET /connectors"]
    assert len(proofs) <= 2


FILE_CONFIG = {"connector.class": "FileStreamSource", "tasks.max": "1", "topic": "t", "file": "f"}
WRITES = {
    "create": lambda client: client.create_connector("new", FILE_CONFIG),
    "change": lambda client: client.put_config("a", FILE_CONFIG | {"x": "1"}),
    "delete": lambda client: client.delete_connector("a"),
    "read": lambda client: client.read_connector("a"),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_what_the_herder_has_carried_out_proves_that_its_worker_is_ready(fake, write):
    with open_client(fake) as client:
        write(client)
        before = len(fake.asked())
        with pytest.raises(NotFoundError):
            client.read_status("gone")
        assert set(fake.asked()[before:]) == {"GET /connectors/gone/status"}


def test_a_pause_proves_nothing(fake):
    """Connect answers it from the worker's own snapshot."""
    with open_client(fake) as client:
        client.pause("a")
        before = len(fake.asked())
        with pytest.raises(NotFoundError):
            client.read_status("gone")
        assert len(set(fake.asked()[before:])) > 1


def test_only_one_worker_is_asked_where_it_is_ready(pair):
    with open_client(pair) as client, pytest.raises(NotFoundError):
        client.read_status("gone")
    assert [line for line in pair.asked() if line == "GET /health"] == ["GET /health"]


def test_a_restart_between_the_health_and_the_answer_is_detected(fake, monkeypatch):
    """The first process answers that it is healthy; the one that answers the list has just started."""
    with open_client(fake, LONG) as client:
        send, restarts = client._transport.send, iter([True])

        def send_then_restart(url, request, **limits):
            outcome = send(url, request, **limits)
            is_proof = not request.path.endswith("/connectors")
            if is_proof and next(restarts, False):
                fake.restart(known=["a"])
                finish_later(fake)
            return outcome

        monkeypatch.setattr(client._transport, "send", send_then_restart)
        assert sorted(client.read_names()) == list(NAMES)
        assert next(restarts, None) is None


def test_an_answer_from_before_the_end_of_the_start_is_not_kept(fake, monkeypatch):
    """The worker is starting when it answers, and ready when it is asked for its health."""
    with open_client(fake, LONG) as client:
        send, ends = client._transport.send, iter([True])

        def send_then_finish(url, request, **limits):
            outcome = send(url, request, **limits)
            if request.path.endswith("/connectors") and next(ends, False):
                fake.finish_start()
            return outcome

        monkeypatch.setattr(client._transport, "send", send_then_finish)
        fake.restart()
        assert sorted(client.read_names()) == list(NAMES)


def test_a_restart_after_many_answers_is_detected(fake):
    with open_client(fake) as client:
        assert len(client.read_names()) == 3
        fake.restart()
        with pytest.raises(UnsettledError):
            client.read_names()
        fake.finish_start()
        assert len(client.read_names()) == 3


def test_many_threads_never_read_less_than_everything(fake):
    found, stop = [], threading.Event()

    def read(client):
        while not stop.is_set():
            found.append(tuple(sorted(client.read_names())))

    with open_client(fake, LONG) as client:
        threads = [threading.Thread(target=read, args=[client]) for _ in range(6)]
        for thread in threads:
            thread.start()
        for _ in range(5):
            time.sleep(0.1)
            fake.restart(known=["a"])
            time.sleep(0.2)
            fake.finish_start()
        stop.set()
        for thread in threads:
            thread.join(20)
    assert set(found) == {NAMES}


def test_two_configs_at_once_wait_for_the_start_too(pair):
    """Concurrent readers share a list; one that lacks a connector counts only from a worker that has started."""
    pair.restart(0)
    pair.restart(1)
    errors = []

    def read(client):
        try:
            client.read_config("a")
        except UnreachableError as error:
            errors.append(error)

    with open_client(pair) as client:
        threads = [threading.Thread(target=read, args=[client]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    assert len(errors) == 4


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_a_write_that_a_starting_worker_does_not_know_the_connector_of_is_not_repeated(fake, verb):
    fake.restart()
    with open_client(fake) as client, pytest.raises(UnsettledError, match="no changes were made"):
        getattr(client, verb)("a")
    fake.finish_start()
    assert fake.state.connectors["a"].target == "RUNNING"


# --- where the herder does not answer, and the config topic can be read -------------------------------------------


def test_a_list_counts_where_it_has_every_connector_of_the_config_topic(fake):
    fake.restart(known=NAMES)
    with open_client(fake, read_config_names=lambda: frozenset({"a", "b", "c"})) as client:
        assert sorted(client.read_names()) == list(NAMES)


def test_a_list_that_lacks_a_connector_of_the_config_topic_is_refused(fake):
    fake.restart(known=["a", "b"])
    with (
        open_client(fake, read_config_names=lambda: frozenset(NAMES)) as client,
        pytest.raises(UnsettledError, match="config topic") as caught,
    ):
        client.read_names()
    assert "1 of 3 connectors" in caught.value.cause


def test_an_empty_config_topic_proves_nothing(fake):
    """A worker that has read nothing lists all connectors of an empty topic, or of another Kafka cluster's."""
    fake.restart()
    with open_client(fake, read_config_names=frozenset) as client:
        with pytest.raises(UnsettledError):
            client.read_names()
        with pytest.raises(UnsettledError):
            client.read_status("a")


def test_a_connector_of_the_config_topic_without_a_status_is_found_missing(fake):
    fake.add_connector("young")
    fake.state.connectors["young"].shown = None
    fake.restart(known=[*NAMES, "young"])
    with open_client(fake, read_config_names=lambda: frozenset({*NAMES, "young"})) as client:
        with pytest.raises(NotFoundError):
            client.read_status("young")
        assert client.read_status("a").state == "RUNNING"


def test_a_config_topic_that_can_not_be_read_proves_nothing(fake):
    def fail():
        raise UnreachableError("no broker answers")

    fake.restart()
    with open_client(fake, read_config_names=fail) as client, pytest.raises(UnsettledError) as caught:
        client.read_names()
    assert "no broker answers" in caught.value.cause


# --- other answers of /health --------------------------------------------------------------------------------------


def say(status, text, kind="application/json"):
    return Raw(status, text.encode(), kind)


@pytest.mark.parametrize("reply", [say(500, '{"status":"unhealthy"}'), say(503, '{"status":"starting"}')])
def test_a_worker_that_is_not_healthy_is_refused(pair, reply):
    pair.faults.add(match="GET /health", times=1000, do=reply)
    with open_client(pair) as client, pytest.raises(UnsettledError):
        client.read_names()


@pytest.mark.parametrize(
    "reply",
    [
        say(200, '{"status":"healthy","message":"the gateway is fine"}'),
        say(200, '{"ok":true}'),
        say(200, "OK", "text/plain"),
        say(503, '{"status":"healthy","message":"Worker has completed startup"}'),
        Answer(401, "no"),
        Answer(403, "no"),
        Answer(404, "HTTP 404 Not Found"),
        Answer(405, "no"),
    ],
    ids=["healthy gateway", "json", "page", "healthy by its text alone", "401", "403", "404", "405"],
)
def test_another_answer_to_health_is_no_proof_and_the_herder_is_asked(pair, reply):
    pair.faults.add(match="GET /health", times=1000, do=reply)
    with open_client(pair) as client:
        assert len(client.read_names()) == 3
        pair.restart(0)
        pair.restart(1)
        with pytest.raises(UnsettledError):
            client.read_names()


def test_the_fake_answers_like_a_worker_that_starts(pair):
    pair.restart(0)
    with open_client(pair) as client:
        health = client.read_health(pair.urls[0])
    assert (health.status, health.message) == ("starting", texts.STARTING)
