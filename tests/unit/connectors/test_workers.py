"""What runs on each worker."""

import pytest

from seamark.connect.model import Plugin, State
from seamark.connectors.worker_views import build_worker_view, build_workers_view
from seamark.connectors.workers import Imbalance, Workers, count_work, find_imbalances
from seamark.context.urls import build_worker_id
from seamark.core.readings import Reading
from seamark.errors import NotFoundError, SecretError, UnreachableError, UsageError
from seamark.kafka.worker_group import WorkerGroup
from seamark.report.data import OutputFormat
from seamark.report.listing import render_view
from seamark.report.text import Screen
from tests.unit.fleet.builders import SOURCE_CLASS, StubConnect, connector, open_stub_fleet, settings, worker

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


# urllib raises ValueError for each of them: at once, for the port or for the host.
INVALID_URLS = (
    "http://fe80::1:8083",
    "http://w1[:8083",
    "http://w1:port",
    "http://w1:99999",
    "http://w1\N{ACCOUNT OF}:8083",
    "http://[\x1b[2J",
)


@pytest.mark.parametrize("url", INVALID_URLS)
def test_a_url_without_a_valid_address_stands_for_itself(url):
    assert build_worker_id(url) == url


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


def test_tasks_of_a_dead_worker_are_not_those_of_an_idle_one():
    found = count_work((worker(ONE, error="refused"), worker(TWO)), [connector("a"), connector("b")])
    assert counts(found) == {ONE: (None, None), TWO: (0, 0)}


# imbalance


def busy(url, connectors, tasks, **more):
    return worker(url, connectors=connectors, tasks=tasks, **more)


@pytest.mark.parametrize(
    "workers",
    [
        (),
        (busy(ONE, 9, 9),),
        (busy(ONE, 3, 5), busy(TWO, 2, 4)),
        (busy(ONE, 1, 1), busy(TWO, 0, 0)),
        (busy(ONE, 9, 9), busy(TWO, 0, 0, error="refused")),
        (busy(ONE, 9, 9), busy(TWO, None, None)),
        (busy(ONE, 9, 9), busy(TWO, 0, 0, cluster="other")),
    ],
)
def test_a_difference_of_one_is_balanced_and_so_is_what_cannot_be_compared(workers):
    assert find_imbalances(workers) == ()


def test_connectors_and_tasks_are_compared_separately_between_the_extremes():
    three = "http://127.0.0.1:8085"
    found = find_imbalances((busy(ONE, 3, 5), busy(TWO, 3, 9), busy(three, 2, 7)))
    assert found == (Imbalance("game", "tasks", TWO, 9, ONE, 5),)
    both = find_imbalances((busy(ONE, 6, 5), busy(TWO, 0, 0)))
    assert both == (Imbalance("game", "connectors", ONE, 6, TWO, 0), Imbalance("game", "tasks", ONE, 5, TWO, 0))


# one worker

PLUGIN = Plugin("org.example.Own", "sink", "1.0")
NEWER = Plugin(SOURCE_CLASS, "source", "4.3.2")
BASE = Plugin(SOURCE_CLASS, "source", "4.3.1")


def open_workers(*clients, groups=None):
    clients = {client.name: client for client in clients}
    made = [settings(name, urls=tuple(one.url for one in client.workers)) for name, client in clients.items()]
    context = open_stub_fleet(clients, clusters=made)
    return Workers(context._clusters, read_members=(groups or {}).get)


def build_game(*connectors, name="game", workers=(), **more):
    client = StubConnect(workers=workers or (worker(ONE), worker(TWO)), connectors=connectors, **more)
    client.name = name
    return client


RUNS = (
    connector("a", tasks=(State.RUNNING, State.FAILED)),
    connector("b", worker_id="127.0.0.1:8084"),
    connector("c", state=State.UNASSIGNED, tasks=(State.UNASSIGNED,)),
)


@pytest.mark.parametrize("name", [TWO, f"{TWO}/", "127.0.0.1:8084"])
def test_a_worker_is_found_by_its_url_or_its_id(name):
    found = open_workers(build_game(*RUNS)).get(name)
    assert (found.worker.url, found.worker_id) == (TWO, "127.0.0.1:8084")
    assert [one.name for one in found.connectors] == ["b"]
    assert [(one.name, task.id) for one, task in found.tasks] == [("b", 0)]
    assert [(one.url, one.connectors, one.tasks) for one in found.others] == [(ONE, 1, 2)]


def test_a_worker_is_found_by_the_id_that_its_states_name():
    game = build_game(*RUNS[:1], connector("d", worker_id="connect-2:8083"))
    found = open_workers(game).get("connect-2:8083")
    assert (found.worker.url, [one.name for one in found.connectors]) == (TWO, ["d"])


def test_an_unknown_worker_is_refused_with_the_known_ones():
    with pytest.raises(NotFoundError, match="the context has no worker w9:1") as error:
        open_workers(build_game(*RUNS)).get("w9:1")
    assert error.value.cause == f"its workers: {ONE}, {TWO}"
    silent = build_game(name="silent")
    silent.connectors = UnreachableError("busy")
    with pytest.raises(NotFoundError) as error:
        open_workers(build_game(*RUNS), silent).get("w9:1")
    assert error.value.cause.endswith("; no answer from silent")


def test_a_worker_of_two_connect_clusters_needs_the_cluster():
    other = build_game(name="other", workers=(worker(ONE, cluster="other"),))
    workers = open_workers(build_game(*RUNS), other)
    with pytest.raises(UsageError, match="is in 2 Connect clusters") as error:
        workers.get(ONE)
    assert error.value.hint == "choose one of them: --cluster game"
    assert workers.get(ONE, cluster="other").worker.cluster == "other"
    with pytest.raises(NotFoundError, match="no Connect cluster missing"):
        workers.get(ONE, cluster="missing")


def test_a_worker_that_is_down_has_what_states_still_name_on_it():
    found = open_workers(build_game(*RUNS, workers=(worker(ONE), worker(TWO, error="refused")))).get(TWO)
    assert (found.worker.is_up, [one.name for one in found.connectors], found.missing) == (False, ["b"], ())
    assert found.imbalances == ()


def test_nothing_is_claimed_about_a_load_balancer():
    game = build_game(*RUNS, connector("d", worker_id="x:1"), workers=(worker("http://lb"), worker(ONE)))
    game.connectors += (connector("e", worker_id="y:1"),)
    found = open_workers(game).get("http://lb")
    assert (found.worker_id, found.connectors, found.tasks, found.worker.tasks) == ("", (), (), None)


def test_plugins_are_compared_with_the_other_workers():
    plugins = {ONE: (BASE, PLUGIN), TWO: (NEWER,)}
    found = open_workers(build_game(*RUNS, plugins=plugins)).get(TWO)
    assert [(one.class_name, one.version) for one in found.missing] == [
        (SOURCE_CLASS, "4.3.1"),
        ("org.example.Own", "1.0"),
    ]
    assert [one.version for one in open_workers(build_game(*RUNS, plugins=plugins)).get(ONE).missing] == ["4.3.2"]


def test_the_worker_group_says_who_is_a_member_and_who_leads_it():
    group = WorkerGroup("connect-game", "Stable", (f"{ONE}/", TWO), leader=TWO)
    workers = open_workers(build_game(*RUNS), groups={"game": group})
    assert [(workers.get(url).is_member, workers.get(url).is_leader) for url in (ONE, TWO)] == [
        (True, False),
        (True, True),
    ]
    rest = open_workers(build_game(*RUNS)).get(ONE)
    assert (rest.is_member, rest.is_leader, rest.failures) == (None, None, {})


def test_during_a_rebalance_it_is_unknown_who_is_a_member():
    # Brokers describe the members without their URLs then.
    moving = WorkerGroup("connect-game", "PreparingRebalance", (ONE,), is_complete=False)
    workers = open_workers(build_game(*RUNS), groups={"game": moving})
    found = workers.get(TWO)
    assert (workers.get(ONE).is_member, found.is_member, found.is_leader) == (True, None, None)
    assert "  worker group   connect-game · PreparingRebalance\n" in show(build_worker_view(found))
    assert build_worker_view(found).build_body()["worker_group"]["member"] is None


@pytest.mark.parametrize("url", INVALID_URLS)
def test_a_member_without_a_valid_address_hides_no_other_one(url):
    group = WorkerGroup("connect-game", "Stable", (ONE, TWO, url), leader=url)
    found = open_workers(build_game(*RUNS), groups={"game": group}).get(ONE)
    assert (found.is_member, found.is_leader, found.group.members) == (
        True,
        False,
        {"127.0.0.1:8083", "127.0.0.1:8084", url},
    )
    assert "\x1b" not in show(build_worker_view(found))


def test_an_idle_worker_of_another_name_is_found_among_the_members():
    group = WorkerGroup("connect-game", "Stable", (ONE, "http://connect-2:8083"))
    found = open_workers(build_game(RUNS[0]), groups={"game": group}).get(TWO)
    assert (found.worker_id, found.is_member, found.worker.tasks) == ("connect-2:8083", True, 0)


def test_an_idle_url_that_is_not_a_member_is_not_compared():
    busy_one = (connector("a"), connector("b"))
    alone, both = (WorkerGroup("connect-game", "Stable", urls) for urls in ((ONE,), (ONE, TWO)))
    assert open_workers(build_game(*busy_one), groups={"game": alone}).get(ONE).imbalances == ()
    assert len(open_workers(build_game(*busy_one), groups={"game": both}).get(ONE).imbalances) == 2


def test_an_id_of_two_urls_needs_the_url():
    game = build_game(*RUNS, workers=(worker(f"{ONE}/a"), worker(f"{ONE}/b")))
    with pytest.raises(UsageError, match="is that of 2 URLs") as error:
        open_workers(game).get("127.0.0.1:8083")
    assert error.value.cause == f"{ONE}/a, {ONE}/b"


def test_what_cannot_be_read_is_a_failure_beside_the_rest():
    def refuse(_):
        raise UnreachableError("no broker")

    game = build_game()
    game.connectors, game.plugins = UnreachableError("busy"), {ONE: (BASE,), TWO: UnreachableError("no plugins")}
    workers = open_workers(game)
    workers._read_members = refuse
    found = workers.get(ONE)
    assert sorted(found.failures) == ["connectors", "plugins", "worker group"]
    assert (found.worker.is_up, found.worker.tasks, found.imbalances) == (True, None, ())


def test_one_request_lists_the_connectors_of_all_workers():
    game = build_game(*RUNS)
    open_workers(game).get(ONE)
    assert game.calls == {"workers": 1, "connectors": 1, "plugins": 2}


def test_traces_in_the_detail_have_no_secrets():
    leaking = connector(
        "a", tasks=(State.FAILED,), trace="login with hunter2 failed", config={"connection.password": "hunter2"}
    )
    found = open_workers(build_game(leaking)).get(ONE)
    assert "hunter2" not in repr([found.tasks, [one.status for one in found.connectors]])


# the views


def show(view, form=OutputFormat.TABLE):
    return render_view(view, form, Screen())


def test_the_list_reports_what_is_unbalanced():
    view = build_workers_view(Reading((busy(ONE, 6, 5), busy(TWO, 0, 4))))
    text = show(view)
    assert f"▲ game: connectors are unevenly distributed: 6 on {ONE}, 0 on {TWO}\n" in text
    assert "tasks are" not in text
    assert text.endswith("  for what to do, run: seamark doctor\n")
    (found,) = view.build_body()["imbalances"]
    assert found == {"cluster": "game", "kind": "connectors", "busiest": ONE, "most": 6, "idlest": TWO, "least": 0}
    assert "▲" not in show(build_workers_view(Reading((busy(ONE, 3, 5), busy(TWO, 2, 4)))))


def test_a_worker_is_shown_with_what_differs():
    plugins = {ONE: (BASE, PLUGIN), TWO: (BASE,)}
    group = WorkerGroup("connect-game", "Stable", (ONE, TWO), leader=ONE)
    workers = open_workers(build_game(*RUNS, plugins=plugins), groups={"game": group})
    text = show(build_worker_view(workers.get(TWO)))
    assert text.startswith(f"{TWO} · game · ✓ UP\n  version        4.3.1\n  Kafka cluster  kafka-1\n")
    assert "  worker group   connect-game · follower\n" in text
    assert "Connectors (1) and tasks (1)\n" in text
    assert "Other workers (1)\n" in text
    assert "Plugins that other workers have (1)\n" in text
    assert "org.example.Own" in text
    body = build_worker_view(workers.get(ONE)).build_body()
    assert body["worker_group"] == {"name": "connect-game", "state": "Stable", "member": True, "leader": True}
    # What failed comes first.
    assert [(one["task"], one["state"]) for one in body["assigned"]] == [
        (1, "FAILED"),
        (None, "RUNNING"),
        (0, "RUNNING"),
    ]
    assert (body["missing_plugins"], body["failures"]) == ([], [])


def test_a_worker_that_is_down_is_shown_with_its_last_states():
    text = show(
        build_worker_view(open_workers(build_game(*RUNS, workers=(worker(ONE), worker(TWO, error="refused")))).get(TWO))
    )
    assert f"{TWO} · game · ✗ DOWN\n  error          refused\n" in text
    assert "Connectors (1) and tasks (1) as last reported\n" in text


def test_a_long_list_of_tasks_is_cut_and_shown_wide():
    game = build_game(connector("many", tasks=(State.RUNNING,) * 40))
    view = build_worker_view(open_workers(game).get(ONE))
    assert "  … 21 more: -o wide\n" in show(view)
    assert "more: -o wide" not in show(view, OutputFormat.WIDE)


def test_names_from_connect_cannot_control_the_terminal():
    evil = "a\x1b[2Jb"
    game = build_game(connector(evil, worker_id="127.0.0.1:8083"))
    view = build_worker_view(open_workers(game).get(ONE))
    for form in (OutputFormat.TABLE, OutputFormat.WIDE, OutputFormat.JSON, OutputFormat.YAML, OutputFormat.CSV):
        assert "\x1b" not in show(view, form)
