"""Which workers live, by any answer at all; and no password goes to an address that only the cluster has named."""

from __future__ import annotations

import httpx2

from seamark.connect import ConnectClient, Timing
from seamark.devstack.fake_connect import FakeConnect


def bare(url):
    return url.removeprefix("http://")


def test_a_worker_that_answers_lives_and_a_dead_one_is_silent():
    with FakeConnect(workers=2) as fake, ConnectClient(fake.urls, timing=Timing(connect_seconds=1.0)) as client:
        workers = [bare(url) for url in fake.urls]
        assert client.find_silent(workers) == ()
        fake.kill(1)
        assert client.find_silent(workers) == (workers[1],)
        assert client.find_silent([]) == ()


def test_no_password_is_sent():
    seen = []

    def answer(request):
        seen.append(request.headers.get("authorization"))
        return httpx2.Response(401)

    transport = httpx2.MockTransport(answer)
    with ConnectClient(["http://w1:8083"], username="ops", password="hunter2", transport=transport) as client:
        assert client.find_silent(["elsewhere:8083"]) == ()
    assert seen == [None, None]


def test_a_worker_of_ours_that_hangs_is_silent_too():
    """Whoever was stopped before may still believe that it runs what another worker runs by now."""

    def answer(request):
        if request.url.host == "w2":
            raise httpx2.ReadTimeout("nothing came")
        if request.url.host == "w3":
            raise httpx2.ConnectError("connection refused")
        return httpx2.Response(200, json={})

    urls = [f"http://w{number}:8083" for number in (1, 2, 3)]
    with ConnectClient(urls, transport=httpx2.MockTransport(answer)) as client:
        assert client.find_silent(["w1:8083"]) == ("w2:8083",)
        assert client.find_silent(["w2:8083", "w3:8083"]) == ("w2:8083", "w3:8083")
