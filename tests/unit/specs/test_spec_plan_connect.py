"""Plans from specs over HTTP: real clients, FakeConnect, a journal in a folder."""

import json
import os

import pytest

import seamark
from seamark.changes.preconditions import build_preconditions
from tests.fakes.connect import FILE_SINK, FILE_SOURCE, FakeConnect
from tests.unit.fleet.builders import EmptyScan, StubKafka

PASSWORD = "hunter2-canary"

SPEC = """\
defaults:
  connector.class: {source}
  file: /in
  connection.user: ${{file:/etc/kafka/db.properties:user}}
  connection.password: secret://env/GAME_DB_PASSWORD
each:
  - name: log-${{{{ each.table }}}}
    for:
      - {{table: login}}
      - {{table: purchase}}
    config:
      topic: game-${{{{ each.table }}}}
"""


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch):
    """What runs here runs at once and for good: nobody has to wait for its second look."""
    monkeypatch.setattr("seamark.connectors.run_state._lasts", lambda since, now, seconds: since is not None)


@pytest.fixture
def connect():
    with FakeConnect(workers=2) as fake:
        yield fake


@pytest.fixture
def folder(tmp_path, monkeypatch, connect):
    """A project folder: contexts, spec files, and nothing of whoever runs the tests."""
    for name in list(os.environ):
        if name.startswith("SEAMARK_"):
            monkeypatch.delenv(name)
    context = {
        "connect": {"game": {"urls": list(connect.urls), "group_id": "workers", "offsets_topic": "offsets"}},
        "policy": {"files": ["/in", "/out", "/other"], "references": ["secret://env/GAME_DB_PASSWORD"]},
        "journal": "file",
        "journal_folder": str(tmp_path / "journal"),
    }
    (tmp_path / "contexts.yaml").write_text(json.dumps({"current": "dev", "contexts": {"dev": context}}))
    config = tmp_path / "config"
    config.mkdir()
    (config / "logs.yaml").write_text(SPEC.format(source=FILE_SOURCE))
    lake = {"connector.class": FILE_SINK, "topics": "t", "file": "/out", "connection.password": "literal-canary"}
    (config / "lake.json").write_text(json.dumps({"name": "lake", "config": lake}))
    monkeypatch.setenv("SEAMARK_CONFIG", str(tmp_path / "contexts.yaml"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("GAME_DB_PASSWORD", PASSWORD)
    # There are no brokers here; who looks for the group of a new sink shall not wait for them.
    monkeypatch.setattr("seamark.fleet.fleet.build_kafka_admin", lambda settings: StubKafka())
    monkeypatch.setattr("seamark.offsets.stores.stores.open_topic_scan", lambda _, topic, __: EmptyScan(topic))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_five_lines_of_python(folder, connect):
    fleet = seamark.open("dev")
    plan = fleet.plan("config/")
    change = fleet.apply(plan)
    again = fleet.plan("config/")
    fleet.close()

    assert plan.plan.title == "apply config"
    assert change.is_done
    assert set(connect.state.connectors) == {"log-login", "log-purchase", "lake"}
    held = connect.state.connectors["log-login"].config
    assert held["connection.password"] == PASSWORD
    assert held["connection.user"] == "${file:/etc/kafka/db.properties:user}"
    assert again.is_empty
    assert "No changes." in again._repr_html_()


def test_a_second_apply_sends_no_change(folder, connect):
    with seamark.open("dev") as fleet:
        fleet.apply(fleet.plan("config/"))
        connect.requests.clear()
        assert fleet.apply(fleet.plan("config/")).is_done
    assert not [line for line in connect.asked() if not line.startswith("GET")]
    assert len(connect.asked("/connectors?expand")) == 1


def test_no_secret_is_shown_or_kept(folder, connect, monkeypatch):
    with seamark.open("dev") as fleet:
        first = fleet.plan("config/")
        fleet.apply(first)
        monkeypatch.setenv("GAME_DB_PASSWORD", "changed-canary")
        second = fleet.plan("config/")
        assert len(second.effects) == 2
        fleet.apply(second)
        shown = [str(found) + repr(found) + found._repr_html_() for found in (first, second)]
    spec_files = folder / "config"
    kept = [path for path in folder.rglob("*") if path.is_file() and spec_files not in path.parents]
    assert len(kept) > 3
    for text in [*shown, *(path.read_bytes().decode(errors="replace") for path in kept)]:
        assert "canary" not in text
    assert connect.state.connectors["log-login"].config["connection.password"] == "changed-canary"


def test_the_reading_gives_the_same_fingerprints_as_single_looks(folder, connect):
    connect.add_connector("log-login", {"file": "/other", "connection.password": "old-canary"})
    connect.add_connector("gone", {"file": "/other"}, state="PAUSED")
    with seamark.open("dev") as fleet:
        planned = fleet.plan("config/", prune=True)
        assert sorted(str(effect.sign) for effect in planned.effects) == ["+", "+", "-", "~"]
        assert planned.plan.preconditions == build_preconditions(planned.steps, fleet._world)
