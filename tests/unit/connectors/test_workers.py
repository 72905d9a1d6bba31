"""What runs on each worker."""

import pytest

from seamark.connect.model import State
from seamark.connectors.workers import count_work
from seamark.context.urls import build_worker_id
from seamark.errors import SecretError, UnreachableError
from tests.unit.fleet.builders import StubConnect, connector, open_stub_fleet, worker

ONE, TWO = "http://127.0.0.1:8083", "http://127.0.0.1:8084"


def counts(workers):
    return {found.url: (found.connectors, found.tasks) for found in workers}


def test_connectors_and_tasks_are_counted_by_the_worker_they_name():
    found = count_work(
        (worker(ONE), worker(TWO)),
        [
            connector("a", tasks=(State.RUNNING, State.FAILED)),
            connector("b", worker_id="127.0.0.1:8084"),
            connector("c", status=None),
        ],
    )
    assert counts(found) == {ONE: (1, 2), TWO: (1, 1)}


def test_what_is_unassigned_runs_nowhere():
    found = count_work((worker(ONE),), [connector("a", state=State.UNASSIGNED, tasks=(State.UNASSIGNED,))])
    assert counts(found) == {ONE: (0, 0)}


def test_an_idle_worker_has_zero_when_all_others_are_known():
    assert counts(count_work((worker(ONE), worker(TWO)), [connector("a")])) == {ONE: (1, 1), TWO: (0, 0)}


def test_a_worker_of_another_advertised_name_is_matched_when_only_one_is_left():
    found = count_work((worker(ONE), worker(TWO)), [connector("a"), connector("b", worker_id="connect-2:8083")])
    assert counts(found) == {ONE: (1, 1), TWO: (1, 1)}


def test_behind_a_load_balancer_nothing_is_guessed():
    found = count_work((worker("http://lb"),), [connector("a", worker_id="x:1"), connector("b", worker_id="y:1")])
    assert counts(found) == {"http://lb": (None, None)}


@pytest.mark.parametrize(
    ("url", "address"), [("http://a:8083", "a:8083"), ("http://a", "a:80"), ("https://a/base", "a:443")]
)
def test_address_of_a_url(url, address):
    assert build_worker_id(url) == address


def test_a_dead_worker_is_an_item_with_its_error():
    clients = {"game": StubConnect(workers=(worker(ONE), worker(TWO, error="refused")), connectors=(connector("a"),))}
    reading = open_stub_fleet(clients).workers.list()
    assert [(found.url, found.is_up, found.tasks) for found in reading] == [(ONE, True, 1), (TWO, False, None)]
    assert reading.is_complete


def test_workers_are_told_also_when_connectors_can_not_be_read():
    reading = open_stub_fleet({"game": StubConnect(connectors=UnreachableError("busy"))}).workers.list()
    assert [(found.is_up, found.tasks) for found in reading] == [(True, None)]


def test_connectors_are_not_asked_for_when_nobody_is_up():
    game = StubConnect(workers=(worker(ONE, error="refused"),))
    open_stub_fleet({"game": game}).workers.list()
    assert game.calls == {"workers": 1}


def test_a_cluster_without_a_client_is_a_failure():
    reading = open_stub_fleet({"game": StubConnect(workers=SecretError("no such secret"))}).workers.list()
    assert list(reading.failures) == ["game"]
