"""`connectors validate -f`: what is sent, what is reported with which line, and how it ends."""

from __future__ import annotations

import io
import json

import pytest

from seamark.cli.main import execute
from seamark.cli.session import Session
from seamark.connect.model import Validation
from seamark.errors import RejectedError, UnreachableError
from seamark.policy.policy import Policy
from tests.unit.cli.stubs import Outcome
from tests.unit.fleet.living import SINK, SOURCE, LivingConnect, open_living_fleet

SPEC = f"""\
defaults:
  connector.class: {SOURCE}
  tasks.max: zero
connectors:
  - name: a
    config: {{topic: t}}
  - name: b
    config:
      topic: t
      tasks.max: 1
each:
  - name: row-${{{{ each.n }}}}
    for: [{{n: 1, tasks: none}}]
    config:
      topic: t
      tasks.max: ${{{{ each.tasks }}}}
"""


class Validating(LivingConnect):
    """Validates as Connect does: a number of tasks, and a topic. Keeps what it was sent."""

    def __init__(self):
        super().__init__()
        self.sent = {}
        self.errors = {}

    def validate_config(self, plugin, config):
        self._called("validate_config", config["name"])
        self.sent[config["name"]] = dict(config)
        errors = {}
        if not config["tasks.max"].isdigit():
            errors["tasks.max"] = (f"Invalid value {config['tasks.max']} for configuration tasks.max",)
        if "topic" not in config:
            errors["topic"] = ("Missing required configuration",)
        errors |= self.errors.get(config["name"], {})
        return Validation(plugin, len(errors), errors)


class Desk:
    def __init__(self, folder):
        self.folder = folder
        self.game = Validating()
        self.policy = Policy(files=("/**",))

    def write(self, text, name="a.yaml"):
        path = self.folder / "spec" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    def run(self, *argv):
        out, err = io.StringIO(), io.StringIO()
        session = Session(
            out=out,
            err=err,
            stdin=io.StringIO(),
            open_fleet=lambda name: open_living_fleet(self.folder, self.game, policy=self.policy),
        )
        code = execute(["connectors", "validate", "-f", str(self.folder / "spec"), *argv], session=session)
        return Outcome(code, out.getvalue(), err.getvalue())

    def read(self, *argv):
        return {item["name"]: item for item in json.loads(self.run(*argv, "-o", "json").out)["items"]}


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


def list_places(item):
    return [(problem["key"], problem["line"]) for problem in item["problems"]]


def test_error_has_the_line_of_its_key_wherever_the_value_is(desk):
    desk.write(SPEC)
    found = desk.read()
    assert list_places(found["a"]) == [("tasks.max", 3)], "an inherited default"
    assert list_places(found["row-1"]) == [("tasks.max", 16)], "a value of each:"
    assert (found["b"]["valid"], found["b"]["problems"]) == (True, [])
    assert desk.run().code == 1


def test_key_that_is_missing_has_the_line_of_its_connector(desk):
    desk.write(f'{{\n "name": "a",\n "config": {{"connector.class": "{SOURCE}", "tasks.max": "1"}}}}', "a.json")
    found = desk.read()["a"]
    assert [problem["key"] for problem in found["problems"]] == ["topic"]
    assert found["problems"][0]["file"].endswith("spec/a.json")
    desk.write(f"name=p\nconnector.class={SOURCE}\ntopic=t\ntasks.max=many\n", "p.properties")
    assert list_places(desk.read()["p"]) == [("tasks.max", 4)]


def test_text_begins_each_error_with_its_place(desk):
    path = desk.write(SPEC)
    ended = desk.run("a", "b")
    assert ended.code == 1
    assert ended.out.splitlines() == [
        "✗ game/a",
        f"  {path}:3:14  tasks.max: Invalid value zero for configuration tasks.max",
        "1 connector valid, 1 invalid",
    ]


def test_valid_files_end_with_zero_and_nothing_is_changed(desk):
    desk.write(SPEC)
    ended = desk.run("b")
    assert (ended.code, ended.out) == (0, "1 connector valid, 0 invalid\n")
    assert desk.game.configs == {}
    assert not desk.game.calls["create"] + desk.game.calls["put_config"]


def test_plugins_get_a_placeholder_for_each_reference(desk, monkeypatch):
    monkeypatch.setenv("DB_PASSWORD", "canary-7f3a")
    desk.policy = Policy(files=("/**",), references=("secret://env/DB_PASSWORD",))
    desk.write(
        f"connectors: {{a: {{config: {{connector.class: {SOURCE}, topic: t, tasks.max: 1, "
        "db.password: secret://env/DB_PASSWORD}}}"
    )
    desk.game.errors["a"] = {"db.password": ("login failed for seamark-placeholder",)}
    found = desk.read()["a"]
    assert desk.game.sent["a"]["db.password"] == "seamark-placeholder"
    assert (found["valid"], found["unchecked"]) == (True, ["db.password"])
    text = desk.run()
    assert "! game/a: not checked: db.password" in text.out
    assert "canary" not in text.out + text.err


def test_config_that_the_policy_forbids_is_reported_and_never_sent(desk):
    desk.policy = Policy(files=("/allowed/**",))
    desk.write(
        f"connectors:\n  - name: a\n    config: {{connector.class: {SOURCE}, topic: t, tasks.max: 1,\n"
        "      file: /etc/shadow}\n"
        f"  - name: b\n    config: {{connector.class: {SOURCE}, topic: t, tasks.max: 1}}\n"
    )
    found = desk.read()
    (problem,) = found["a"]["problems"]
    assert (problem["key"], problem["line"]) == ("file", 4)
    assert problem["message"].startswith("P004 ")
    assert desk.game.sent.keys() == {"b"}


def test_reference_that_is_not_allowed_is_reported_and_never_resolved(desk, monkeypatch):
    monkeypatch.setenv("CI_KEY", "canary-51bc")
    desk.write(
        f"connectors: {{a: {{config: {{connector.class: {SOURCE}, topic: secret://env/CI_KEY, tasks.max: 1}}}}}}"
    )
    (problem,) = desk.read()["a"]["problems"]
    assert problem["key"] == "topic"
    assert "canary" not in problem["message"]
    assert not desk.game.sent


def test_what_connect_says_instead_of_a_validation_is_reported_without_the_installed_classes(desk, monkeypatch):
    cause = "http://w1: 500 Failed to find any class that implements Connector and which name matches Nope"

    def reject(plugin, config):
        raise RejectedError("can't validate", cause=f"{cause}, available connectors are: PluginDesc{{…}}")

    monkeypatch.setattr(desk.game, "validate_config", reject)
    desk.write(f"connectors:\n  - name: a\n    config:\n      connector.class: {SINK}\n      topics: t\n")
    (problem,) = desk.read()["a"]["problems"]
    assert (problem["key"], problem["line"], problem["message"]) == ("connector.class", 4, f"can't validate: {cause}")


def test_connect_that_does_not_respond_is_neither_valid_nor_invalid(desk, monkeypatch):
    def fail(plugin, config):
        raise UnreachableError("can't reach http://w1:8083", cause="connection refused")

    monkeypatch.setattr(desk.game, "validate_config", fail)
    desk.write(SPEC)
    ended = desk.run("-o", "json")
    assert ended.code == 6
    assert [item["valid"] for item in json.loads(ended.out)["items"]] == [None] * 3
    assert ended.err.count("connection refused") == 1
    assert desk.run().out == "0 connectors valid, 0 invalid, 3 not validated\n"


def test_name_that_no_file_declares_is_an_error(desk):
    desk.write(SPEC)
    ended = desk.run("nope")
    assert (ended.code, ended.out) == (1, "")
    assert "nope" in ended.err
