"""A running fleet becomes files, and files follow what runs."""

from __future__ import annotations

import io
import json
import os
import stat
from dataclasses import replace

import pytest
from hypothesis import given, settings

from seamark.cli.apply import pull as pull_command
from seamark.cli.session import Session
from seamark.connect.model import State
from seamark.errors import RefusedError, SpecError, UnreachableError, UsageError
from seamark.policy.policy import Policy
from seamark.specs import load_spec
from seamark.specs.pull import apply_pull, read_pull
from tests.unit.fleet.builders import SOURCE_CLASS, StubConnect, connector, open_stub_fleet
from tests.unit.specs.test_edit import CHANGES, NASTY, differ

CLASS = {"connector.class": SOURCE_CLASS}


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def open_fleet(*connectors, **clusters):
    """A fleet of one cluster, game, or of those given by name."""
    given = {"game": connectors} if connectors or not clusters else {}
    given |= clusters
    fleet = open_stub_fleet({name: StubConnect(connectors=found) for name, found in given.items()})
    fleet.context = replace(fleet.context, policy=Policy(references=("secret://env/*",)))
    return fleet


def pull(fleet, folder, **options):
    """Read and write; give what was done."""
    found = read_pull(fleet, folder, environ=options.pop("environ", {}), **options)
    apply_pull(found)
    return found


def configs(folder, **environ):
    return {one.owner: dict(one.config) for one in load_spec([folder], environ=environ).connectors}


def running(name, cluster="game", **config):
    return connector(name, cluster=cluster, config={key.replace("_", "."): value for key, value in config.items()})


def test_each_running_connector_gets_a_file_of_its_own(tmp_path):
    folder = tmp_path / "config"
    found = pull(open_fleet(running("a", tasks_max="1"), running("b/c")), folder)
    assert sorted(path.name for path in folder.iterdir()) == ["a.yaml", "b%2Fc.yaml"]
    assert configs(folder) == {"a": {**CLASS, "tasks.max": "1"}, "b/c": CLASS}
    assert (found.read, found.unchanged, len(found.files)) == (2, 0, 2)
    mode = stat.S_IMODE((folder / "a.yaml").stat().st_mode)
    umask = os.umask(0)
    os.umask(umask)
    assert mode == 0o666 & ~umask


def test_a_second_pull_changes_nothing(tmp_path):
    fleet = open_fleet(running("a", tasks_max="1"))
    pull(fleet, tmp_path / "config")
    again = pull(fleet, tmp_path / "config")
    assert (again.files, again.unchanged) == ((), 1)


def test_what_is_stopped_begins_stopped(tmp_path):
    pull(open_fleet(connector("a", state=State.STOPPED), connector("b", state=State.FAILED)), tmp_path / "config")
    states = [one.state for one in load_spec([tmp_path / "config"], environ={}).connectors]
    assert states == ["STOPPED", ""]


def test_several_clusters_have_a_folder_each(tmp_path):
    fleet = open_fleet(game=(running("a"),), lake=(running("a", cluster="lake"),))
    pull(fleet, tmp_path / "config")
    assert configs(tmp_path / "config") == {"game/a": CLASS, "lake/a": CLASS}
    assert (tmp_path / "config" / "lake" / "a.yaml").read_text().startswith("cluster: lake\n")


def test_secrets_become_references_and_are_listed(tmp_path):
    folder = tmp_path / "config"
    config = {
        "connection.password": "canary-1",
        "connection.url": "jdbc:postgresql://ops:canary-2@db/game",
        "connection.user": "${file:/etc/db.properties:user}",
        "sasl.password": "secret://env/THERE",
    }
    fleet = open_fleet(connector("log-a", config=config))
    found = pull(fleet, folder)
    text = (folder / "log-a.yaml").read_text()
    assert "canary" not in text + repr(found) + "".join(file.diff for file in found.files)
    assert configs(folder)["log-a"] == {
        **CLASS,
        "connection.password": "secret://env/LOG_A_CONNECTION_PASSWORD",
        "connection.url": "secret://env/LOG_A_CONNECTION_URL",
        "connection.user": "${file:/etc/db.properties:user}",
        "sasl.password": "secret://env/THERE",
    }
    assert [(one.key, one.words) for one in found.secrets] == [
        ("connection.password", "set LOG_A_CONNECTION_PASSWORD before the next plan"),
        ("connection.url", "set LOG_A_CONNECTION_URL before the next plan"),
    ]


def test_a_reference_of_the_file_stays_whatever_runs(tmp_path, monkeypatch):
    folder = tmp_path / "config"
    folder.mkdir()
    text = (
        "connectors:\n- name: a\n  config:\n"
        f"    connector.class: {SOURCE_CLASS}\n"
        "    a.password: secret://env/SAME\n    b.password: secret://env/OTHER\n    c.password: secret://env/GONE\n"
    )
    (folder / "a.yaml").write_text(text)
    monkeypatch.setenv("SAME", "canary-a")
    monkeypatch.setenv("OTHER", "canary-x")
    monkeypatch.delenv("GONE", raising=False)
    config = {"a.password": "canary-a", "b.password": "canary-b", "c.password": "canary-c"}
    found = pull(open_fleet(connector("a", config=config)), folder)
    assert (folder / "a.yaml").read_text() == text
    assert [(one.key, one.words.split(" ")[0]) for one in found.secrets] == [
        ("b.password", "its"),
        ("c.password", "it"),
    ]
    assert found.unchanged == 1


YAML = f"""\
# comments stay
defaults: {{connector.class: {SOURCE_CLASS}}}
connectors:
  - name: a
    config:
      tasks.max: 1     # why one
      api.key: canary-in-file
      batch: 10
"""


def test_one_changed_value_is_one_changed_line(tmp_path):
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "a.yaml").write_text(YAML)
    (folder / "a.yaml").chmod(0o640)
    config = {"tasks.max": "4", "api.key": "canary-in-file", "batch": "10"}
    found = pull(open_fleet(connector("a", config=config)), folder)
    after = (folder / "a.yaml").read_text()
    assert differ(YAML, after) == ["-      tasks.max: 1     # why one", "+      tasks.max: 4     # why one"]
    assert stat.S_IMODE((folder / "a.yaml").stat().st_mode) == 0o640
    (file,) = found.files
    assert "canary" not in file.diff
    assert "+      tasks.max: 4     # why one" in file.diff
    assert file.owners == ("game/a",)


def test_json_follows_by_one_line_too(tmp_path):
    folder = tmp_path / "config"
    folder.mkdir()
    text = json.dumps({"name": "a", "config": {**CLASS, "tasks.max": 1, "k": "v"}}, indent=4)
    (folder / "a.json").write_text(text)
    pull(open_fleet(connector("a", config={"tasks.max": "2", "k": "v"})), folder)
    assert differ(text, (folder / "a.json").read_text()) == ['-        "tasks.max": 1,', '+        "tasks.max": 2,']


def test_a_literal_secret_that_changed_becomes_a_reference(tmp_path):
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "a.yaml").write_text(YAML)
    config = {"tasks.max": "1", "api.key": "canary-new", "batch": "10"}
    found = pull(open_fleet(connector("a", config=config)), folder)
    assert configs(folder)["a"]["api.key"] == "secret://env/A_API_KEY"
    assert "canary" not in found.files[0].diff


def test_templates_and_programs_are_reported_and_left_alone(tmp_path):
    folder = tmp_path / "config"
    folder.mkdir()
    text = (
        "each:\n- name: log-${{ each.t }}\n  for: [{t: a}]\n"
        f"  config: {{connector.class: {SOURCE_CLASS}, k: v, p.password: canary-1}}\n"
    )
    (folder / "x.yaml").write_text(text)
    (folder / "y.py").write_text(
        "from seamark.specs import connector\n\ndef resources(env):\n"
        f"    yield connector('py', {{'connector.class': '{SOURCE_CLASS}'}})\n"
    )
    fleet = open_fleet(connector("log-a", config={"k": "w", "p.password": "canary-2"}), running("py", k="v"))
    with pytest.raises(UsageError):
        read_pull(fleet, folder, environ={})
    found = pull(fleet, folder, allow_python=True)
    assert (folder / "x.yaml").read_text() == text
    each, program = found.skipped
    assert (each.owner, each.differences[0]) == ("game/log-a", 'k: "v" → "w"')
    assert "each" in each.reason
    assert (program.owner, program.differences) == ("game/py", ('k: unset → "v"',))
    assert "program" in program.reason
    assert "canary" not in repr(found)


def test_what_does_not_run_is_named_and_stays(tmp_path):
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "a.yaml").write_text(YAML)
    found = pull(open_fleet(running("b")), folder)
    assert found.absent == ("a",)
    assert (folder / "a.yaml").read_text() == YAML


def test_names_choose_and_unknown_ones_are_refused(tmp_path):
    fleet = open_fleet(game=(running("a"), running("b")), lake=(running("a", cluster="lake"),))
    pull(fleet, tmp_path / "one", names=["lake/a"])
    assert configs(tmp_path / "one") == {"lake/a": CLASS}
    pull(fleet, tmp_path / "two", cluster="game")
    assert list(configs(tmp_path / "two")) == ["game/a", "game/b"]
    with pytest.raises(UsageError, match="connector z does not exist"):
        read_pull(fleet, tmp_path / "three", environ={}, names=["z"])


def test_a_new_file_takes_out_what_its_folder_would_add(tmp_path):
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "_defaults.yaml").write_text("cluster: other\ndefaults: {k: v, gone: null}\n")
    pull(open_fleet(running("a")), folder)
    assert configs(folder) == {"game/a": CLASS}
    assert "gone" not in (folder / "a.yaml").read_text()


def test_a_file_of_that_name_is_not_touched(tmp_path):
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "b.yaml").write_text(YAML)
    config = {"tasks.max": "1", "api.key": "canary-in-file", "batch": "10"}
    pull(open_fleet(connector("a", config=config), running("b")), folder)
    assert (folder / "b.yaml").read_text() == YAML
    assert (folder / "b~2.yaml").exists()


def test_a_cluster_that_does_not_answer_is_told(tmp_path):
    fleet = open_stub_fleet(
        {"game": StubConnect(connectors=(running("a"),)), "lake": StubConnect(connectors=UnreachableError("gone"))}
    )
    found = pull(fleet, tmp_path / "config")
    assert list(found.failures) == ["lake"]
    assert list(configs(tmp_path / "config")) == ["game/a"]


def test_a_broken_folder_is_not_written_into(tmp_path):
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "x.yaml").write_text("a: [")
    with pytest.raises(SpecError):
        read_pull(open_fleet(running("a")), folder, environ={})
    assert [path.name for path in folder.iterdir()] == ["x.yaml"]


def test_a_file_that_changed_in_the_meantime_is_not_written(tmp_path):
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "a.yaml").write_text(YAML)
    fleet = open_fleet(running("a", tasks_max="9"), running("b"))
    found = read_pull(fleet, folder, environ={})
    (folder / "a.yaml").write_text(YAML + "# somebody\n")
    with pytest.raises(RefusedError, match="changed meanwhile"):
        apply_pull(found)
    assert (folder / "a.yaml").read_text() == YAML + "# somebody\n"
    found = read_pull(fleet, folder, environ={}, names=["b"])
    (folder / "b.yaml").write_text("")
    with pytest.raises(RefusedError, match="created meanwhile"):
        apply_pull(found)


@settings(max_examples=60, deadline=None)
@given(NASTY.filter(bool), CHANGES, CHANGES)
def test_whatever_runs_is_what_the_files_say(tmp_path_factory, name, first, second):
    folder = tmp_path_factory.mktemp("pull")
    for config in (first, second):
        running_now = connector(name, config=config)
        found = pull(open_fleet(running_now), folder)
        assert found.skipped == ()
        said = configs(folder)[name]
        secret = {one.key for one in found.secrets}
        assert {key: value for key, value in said.items() if not value.startswith("secret://")} == {
            key: value
            for key, value in running_now.config.items()
            if key not in secret and not said[key].startswith("secret://")
        }
        assert said.keys() == running_now.config.keys()


def run(fleet, *words):
    session = Session(open_fleet=lambda _: fleet, out=io.StringIO(), err=io.StringIO())
    pull_command.main([*words], obj=session, standalone_mode=False)
    return session


def test_the_command_shows_a_diff_and_writes_nothing_when_dry(tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "a.yaml").write_text(YAML)
    config = {"tasks.max": "4", "api.key": "canary-in-file", "batch": "10"}
    fleet = open_fleet(connector("a", config=config), running("b"))
    session = run(fleet, "--dry-run")
    shown = session.out.getvalue()
    assert "--- a/config/a.yaml\n+++ b/config/a.yaml\n" in shown
    assert "-      tasks.max: 1     # why one\n+      tasks.max: 4     # why one\n" in shown
    assert "  + config/b.yaml   game/b\n" in shown
    assert "2 connectors read, 0 unchanged. 1 new file, 1 to change, 0 not written.\n" in shown
    assert "canary" not in shown
    assert session.err.getvalue() == "No changes were made.\n"
    assert (tmp_path / "config" / "a.yaml").read_text() == YAML
    written = run(fleet)
    assert (written.exit_code, written.err.getvalue()) == (0, "")
    assert configs(tmp_path / "config")["a"]["tasks.max"] == "4"


def test_the_command_ends_with_3_where_something_was_not_written(tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "x.yaml").write_text(
        f"each: [{{name: a, for: [{{}}], config: {{connector.class: {SOURCE_CLASS}, k: v}}}}]\n"
    )
    session = run(open_fleet(running("a", k="w")))
    assert session.exit_code == 3
    assert '      k: "v" → "w"\n' in session.out.getvalue()
    session = run(open_fleet(running("a", k="w")), "-o", "json")
    assert json.loads(session.out.getvalue())["skipped"][0]["connector"] == "game/a"
