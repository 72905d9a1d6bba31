"""`connectors show`: what belongs to a connector, from Connect, the brokers and the journal, in few requests."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from seamark.core.offsets import Offset
from seamark.core.readings import Reading
from seamark.core.secrets import PLUGIN_KEYS
from seamark.errors import UnreachableError, UnsupportedError
from seamark.kafka.model import PartitionReading
from tests.unit.fleet.living import SOURCE_CONFIG, living_context
from tests.unit.scenarios.offsets import OffsetEnvironment
from tests.unit.transcripts.over_http import serve_over_http


def build_spec(topic):
    return {"connectors": {"fs": {"config": {**SOURCE_CONFIG, "topic": topic}}}}


@pytest.fixture
def env(tmp_path, monkeypatch):
    return OffsetEnvironment(tmp_path, monkeypatch, output="text")


def show(env, *argv):
    ended = env.execute(["connectors", "show", *argv])
    assert ended.code == 0, ended.err
    return ended.out


def read(env, name):
    return json.loads(show(env, name, "-o", "json"))


def show_partly(env, *argv):
    ended = env.execute(["connectors", "show", *argv])
    assert ended.code == 3, ended.err
    assert "error: " in ended.err or '"kind": "Error"' in ended.err
    return ended.out


def test_source_has_its_offsets_topics_and_changes(env):
    env.game.offsets["fs"] = (Offset({"filename": "/in"}, {"position": 100}),)
    env.game.used_topics["fs"] = ("t",)
    assert env.execute(["connectors", "pause", "fs", "--yes"]).code == 0
    assert env.execute(["connectors", "pause", "lake", "--yes"]).code == 0
    assert env.execute(["connectors", "resume", "fs", "--yes"]).code == 0
    found = read(env, "fs")
    assert found["offsets"] == [{"partition": {"filename": "/in"}, "offset": {"position": 100}}]
    assert found["topics"] == ["t"]
    assert [one["title"] for one in found["changes"]] == ["resume fs", "pause fs"]
    assert (found["group"], found["lag"], found["spec"], found["failures"]) == (None, None, None, [])
    lines = show(env, "fs").splitlines()
    assert lines.index("Offsets (1)") < lines.index("Topics (1)") < lines.index("Last changes")
    assert any("filename /in" in text and "position 100" in text for text in lines)


def test_sink_has_its_group_with_the_lag_and_changes_of_the_group(env):
    assert env.execute(["offsets", "move", "lake", "--to", "5", "--topic", "t:0", "--yes"]).code == 0
    found = read(env, "lake")
    assert found["group"] == "connect-lake"
    assert found["lag"]["lag"] == (10 - 5) + (10 - 6)
    assert found["offsets"] is None
    assert len(found["changes"]) == 1
    assert "Group connect-lake\n  stable, lag 9 in 2 partitions" in show(env, "lake").replace("empty", "stable")


def test_spec_that_owns_a_connector_is_named_until_another_one_does(env):
    (env.folder / "_defaults.yaml").write_text("spec: first\n")
    env.write("fleet.yaml", build_spec("one"))
    ended = env.execute(["apply", "-f", ".", "--yes", "--adopt"])
    assert ended.code == 0, ended.err
    assert read(env, "fs")["spec"] == "first"
    assert "  spec    first\n" in show(env, "fs")
    assert read(env, "lake")["spec"] is None
    (env.folder / "_defaults.yaml").write_text("spec: second\n")
    env.write("fleet.yaml", build_spec("two"))
    assert env.execute(["apply", "-f", ".", "--yes", "--adopt"]).code == 0
    assert read(env, "fs")["spec"] == "second"


def test_what_cannot_be_read_is_reported_in_its_place(env, monkeypatch):
    env.game.failing["read_offsets", "fs"] = UnsupportedError("the workers are too old")
    env.game.failing["read_topics", "fs"] = UnreachableError("no answer from w1")

    def fail(_):
        raise UnreachableError("x")

    monkeypatch.setattr(type(env.brokers), "read_consumer_groups", fail)
    found = json.loads(show_partly(env, "fs", "-o", "json"))
    assert {one["part"] for one in found["failures"]} == {"offsets", "topics"}
    text = show_partly(env, "fs")
    assert "Offsets (0)\n  offsets could not be read: the workers are too old\n" in text
    assert "Topics (0)\n  topics could not be read: no answer from w1\n" in text
    assert "Config (5 keys)" in text
    assert "  lag could not be read: x\n" in show_partly(env, "lake")


def test_what_the_workers_cannot_report_at_all_is_no_failure_of_the_command(env):
    env.game.failing["read_offsets", "fs"] = UnsupportedError("the workers are too old")
    assert "offsets could not be read: the workers are too old\n" in show(env, "fs")


def test_long_lists_are_cut_with_the_command_that_shows_the_rest(env):
    env.game.offsets["fs"] = tuple(Offset({"filename": f"/in{number}"}, {"position": 1}) for number in range(1200))
    env.game.used_topics["fs"] = tuple(f"t{number}" for number in range(12))
    text = show(env, "fs")
    assert "  … 1,190 more: seamark offsets show game/fs\n" in text
    assert "  … 2 more: -o wide\n" in text
    assert len(text.splitlines()) < 45
    assert "t9" in show(env, "fs", "-o", "wide")


def count_requests(fake, env, name):
    """Show a connector as a new process does, which knows no plugin yet; return what was shown and the requests."""
    PLUGIN_KEYS.forget()
    before = len(fake.requests)
    found = read(env, name)
    assert found["failures"] == []
    return found, [f"{one.method} {one.path}" for one in list(fake.requests)[before:]]


@pytest.mark.parametrize("name", ["fs", "lake"])
def test_at_most_six_requests_go_to_connect(env, name):
    assert env.execute(["connectors", "pause", name, "--yes"]).code == 0
    with serve_over_http(env, workers=3) as fake:
        found, requests = count_requests(fake, env, name)
    assert len(found["changes"]) == 1
    assert len(requests) <= 6, "; ".join(requests)
    # One connection proves that the worker has read its topics.
    assert "GET /health" not in requests


def build_rest_context(folder, **changes):
    """Return a context that has the workers' URLs only."""
    context = living_context(folder, **{**changes, "group_id": None})
    return replace(context, kafka=replace(context.kafka, values={}))


@pytest.mark.parametrize("has_brokers", [True, False])
def test_the_spec_is_found_without_asking_every_worker(env, has_brokers):
    if not has_brokers:
        env.patch.setattr("tests.unit.transcripts.over_http.living_context", build_rest_context)
    with serve_over_http(env, workers=3) as fake:
        (env.folder / "_defaults.yaml").write_text("spec: first\n")
        env.write("fleet.yaml", build_spec("one"))
        ended = env.execute(["apply", "-f", ".", "--yes", "--adopt", "--no-validate", "--wait", "1s"])
        assert ended.code == 0, ended.err
        found, requests = count_requests(fake, env, "fs")
    assert (found["spec"], len(found["changes"])) == ("first", 1)
    assert len(requests) <= 6, "; ".join(requests)
    assert requests.count("GET /") <= 1


def test_lag_is_that_of_the_own_group_and_no_other_group_is_read(env, monkeypatch):
    env.brokers.add_group("audit", {("t", 0): 0, ("t", 1): 0})
    wanted, read_committed = [], type(env.brokers).read_committed

    def record(brokers, groups, **more):
        wanted.extend(groups)
        return read_committed(brokers, groups, **more)

    monkeypatch.setattr(type(env.brokers), "read_committed", record)
    found = read(env, "lake")
    assert (found["lag"]["group"], found["lag"]["lag"], found["lag"]["connector"]) == ("connect-lake", 6, "game/lake")
    assert wanted == ["connect-lake"]


def test_offsets_of_the_group_that_cannot_be_read_are_not_shown_as_none(env, monkeypatch):
    failed = Reading((), failures={"connect-lake": UnreachableError("no coordinator")})
    monkeypatch.setattr(type(env.brokers), "read_committed", lambda *_, **__: failed)
    assert [one["part"] for one in json.loads(show_partly(env, "lake", "-o", "json"))["failures"]] == ["lag"]
    assert "lag could not be read: no coordinator\n" in show_partly(env, "lake")


def test_partitions_whose_lag_is_unknown_are_counted(env, monkeypatch):
    ends = type(env.brokers).read_log_offsets

    def read_some(brokers, spots, **more):
        found = ends(brokers, spots, **more)
        return replace(found, found={spot: at for spot, at in found.found.items() if spot[1] == 0})

    monkeypatch.setattr(type(env.brokers), "read_log_offsets", read_some)
    assert "lag 2 in 1 partition (1 more could not be read)" in show(env, "lake")
    monkeypatch.setattr(type(env.brokers), "read_log_offsets", lambda *_, **__: PartitionReading({}))
    assert "the lag of 2 partitions could not be read\n" in show(env, "lake")
