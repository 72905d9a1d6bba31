"""Which workers are not known to be alive; only addresses of the context are called."""

from __future__ import annotations

import httpx2
import pytest

from seamark.connect.caller import Timing
from seamark.connect.client import ConnectClient
from tests.fakes.connect import FakeConnect


def bare(url):
    return url.removeprefix("http://")


def answer(request):
    if request.url.host == "w2":
        raise httpx2.ReadTimeout("no bytes")
    if request.url.host == "w3":
        raise httpx2.ConnectError("connection refused")
    return httpx2.Response(200, json={})


@pytest.fixture
def called():
    return []


@pytest.fixture
def client(called):
    def record(request):
        called.append(f"{request.url.host}:{request.url.port}")
        return answer(request)

    urls = [f"http://w{number}:8083" for number in (1, 2, 3)]
    with ConnectClient(urls, transport=httpx2.MockTransport(record)) as opened:
        yield opened


def test_a_worker_that_answers_lives_and_a_dead_one_is_silent():
    with FakeConnect(workers=2) as fake, ConnectClient(fake.urls, timing=Timing(connect_seconds=1.0)) as client:
        workers = [bare(url) for url in fake.urls]
        assert client.find_silent(workers) == ()
        fake.kill(1)
        assert client.find_silent(workers) == (workers[1],)
        assert client.find_silent([]) == ()


@pytest.mark.parametrize("members", [None, frozenset({"w1:8083", "evil:22", "169.254.169.254:80"})])
def test_an_address_from_a_status_is_never_called(client, called, members):
    client.find_silent(["evil:22", "169.254.169.254:80", "w1:8083@evil:80"], members=members)
    assert sorted(called) == ["w1:8083", "w2:8083", "w3:8083"]


def test_a_worker_that_the_context_does_not_list_is_not_known_to_be_alive(client):
    assert client.find_silent(["w1:8083", "elsewhere:8083"]) == ("elsewhere:8083", "w2:8083")


def test_a_worker_that_answers_and_is_no_member_of_the_group_is_silent(client):
    """It was removed from the group and still serves REST: its tasks may still write."""
    assert client.find_silent(["w1:8083"], members=frozenset({"w4:8083"})) == ("w1:8083", "w2:8083")
    assert client.find_silent(["w1:8083"], members=frozenset({"w1:8083"})) == ("w2:8083",)


def test_a_member_that_the_context_does_not_list_is_alive(client):
    assert client.find_silent(["w4:8083"], members=frozenset({"w4:8083"})) == ("w2:8083",)


def test_a_listed_member_that_does_not_answer_is_silent(client):
    """A worker that stands still is a member until its session ends."""
    members = frozenset({"w1:8083", "w2:8083", "w3:8083"})
    assert client.find_silent(["w2:8083", "w3:8083"], members=members) == ("w2:8083", "w3:8083")


def test_a_worker_of_the_context_that_hangs_is_silent_even_if_it_ran_nothing(client):
    """It may have run the connector before another worker took it over."""
    assert client.find_silent([]) == ("w2:8083",)


@pytest.fixture
def answering():
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, json={}))
    with ConnectClient(["http://w1:8083", "http://w2:8083"], transport=transport) as opened:
        yield opened


def test_a_worker_of_the_context_that_was_removed_from_its_group_is_silent_even_if_it_ran_nothing(answering):
    """Partitioned from the brokers: others have its tasks, and it stores their old offsets when the partition ends."""
    assert answering.find_silent(["w1:8083"], members=frozenset({"w1:8083"})) == ("w2:8083",)
    assert answering.find_silent([], members=frozenset({"w1:8083", "w2:8083"})) == ()


def test_a_url_that_is_nobodys_worker_id_is_an_alias(answering):
    """A load balancer, or other names than the workers advertise: nobody can tell which worker answers there."""
    assert answering.find_silent(["a:1"], members=frozenset({"a:1", "b:1"})) == ()


def test_a_default_port_is_part_of_a_worker_id():
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, json={}))
    with ConnectClient(["http://w1", "https://w2"], transport=transport) as client:
        assert client.find_silent(["w1:80", "w2:443"]) == ()


def test_the_case_of_a_host_name_does_not_matter():
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, json={}))
    with ConnectClient(["http://W1:8083"], transport=transport) as client:
        assert client.find_silent(["W1:8083", "w1:8083"]) == ()
