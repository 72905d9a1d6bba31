"""Opening a fleet and the first look at it."""

import subprocess
import sys

import pytest

import seamark
from seamark.connect.model import State
from seamark.connectors.model import Health
from seamark.core.readings import Severity
from seamark.errors import ContextNotFoundError, UnreachableError
from tests.unit.fleet.builders import StubConnect, connector, open_stub_fleet, worker

CONTEXTS = """
current: dev
contexts:
  dev:
    kafka: {bootstrap.servers: "127.0.0.1:1"}
    connect: {game: {urls: ["http://127.0.0.1:1"]}}
  other: {kafka: {bootstrap.servers: "127.0.0.1:2"}}
"""


@pytest.fixture
def contexts_file(tmp_path, monkeypatch):
    file = tmp_path / "seamark.yaml"
    file.write_text(CONTEXTS)
    monkeypatch.chdir(tmp_path)
    # What the person who runs the tests has set up must not matter.
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    monkeypatch.delenv("SEAMARK_CONTEXT", raising=False)
    return file


def test_open_by_name_and_the_current_one(contexts_file):
    with seamark.open("other") as fleet:
        assert fleet.context.name == "other"
    with seamark.open() as fleet:
        assert fleet.context.name == "dev"
        assert repr(fleet) == "Fleet('dev', clusters=['game'])"


def test_open_of_an_unknown_context_says_so(contexts_file):
    with pytest.raises(ContextNotFoundError):
        seamark.open("nope")


def test_importing_the_package_loads_no_client():
    code = (
        "import sys, seamark.fleet, seamark.fleet.fleet;"
        "print(*{'httpx2', 'confluent_kafka', 'pydantic', 'ruamel', 'rich'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "\n"


def test_status_counts_clusters_by_health():
    game = StubConnect(
        connectors=(
            connector("up", tasks=(State.RUNNING, State.RUNNING)),
            connector("half", tasks=(State.RUNNING, State.FAILED)),
            connector("down", state=State.FAILED, tasks=()),
            connector("new", status=None),
            connector("off", state=State.STOPPED, tasks=()),
        ),
        workers=(worker(), worker("http://b:8083", version="4.2.0"), worker("http://c:8083", error="refused")),
    )
    status = open_stub_fleet({"game": game}).status()
    (cluster,) = status.clusters
    assert (status.context, cluster.name, cluster.version) == ("dev", "game", "4.2.0, 4.3.1")
    assert (cluster.workers_up, cluster.workers, cluster.connectors, cluster.tasks) == (2, 3, 5, 4)
    assert cluster.health == {
        Health.HEALTHY: 1,
        Health.DEGRADED: 1,
        Health.UNHEALTHY: 1,
        Health.UNKNOWN: 1,
        Health.STOPPED: 1,
    }
    assert [found.name for found in cluster.troubled] == ["down", "half", "new"]


def test_status_keeps_a_silent_cluster_by_name():
    error = UnreachableError("nobody answers")
    clients = {"game": StubConnect(connectors=(connector("a"),)), "lake": StubConnect(connectors=error)}
    status = open_stub_fleet(clients).status()
    assert [found.name for found in status.clusters] == ["game"]
    assert status.failures == {"lake": error}


def test_close_closes_every_client_that_was_opened():
    clients = {"game": StubConnect(), "lake": StubConnect()}
    with open_stub_fleet(clients) as fleet:
        fleet.connectors.list(cluster="game")
    assert (clients["game"].calls["close"], clients["lake"].calls["close"]) == (1, 0)


def test_reach_tells_of_workers_and_brokers_only():
    game = StubConnect(workers=(worker(), worker("http://b:8083", error="refused")))
    findings = open_stub_fleet({"game": game}).check_connectivity()
    assert [(found.check, found.severity) for found in findings] == [
        ("connect.reachable", Severity.OK),
        ("connect.reachable", Severity.ERROR),
        ("kafka.reachable", Severity.OK),
    ]
    assert game.calls == {"workers": 1}
