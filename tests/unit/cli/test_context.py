"""`seamark context`, with real contexts files in a folder of the test."""

from __future__ import annotations

import json
import stat

import pytest

from seamark.core.readings import Finding, Severity
from tests.unit.cli.stubs import StubFleet, run_seamark


@pytest.fixture
def config(tmp_path):
    return tmp_path / "config" / "seamark" / "config.yaml"


def add(*argv, **settings):
    return run_seamark("context", "add", *argv, **settings)


def test_no_contexts_says_how_to_add_one():
    ended = run_seamark("context", "list")
    assert (ended.code, ended.out) == (0, "")
    assert "seamark context add NAME --connect URL" in ended.err


def test_context_is_added_used_listed_and_shown(config):
    ended = add("dev", "--connect", "http://w1:8083", "--connect", "http://w2:8083", "--bootstrap", "b1:9092", "--use")
    assert (ended.code, ended.out) == (0, "")
    assert "context dev written to" in ended.err
    assert config.exists()
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    assert add("prod", "--connect", "game=https://w3:8083", "--protected").code == 0

    rows = json.loads(run_seamark("context", "list", "-o", "json").out)["items"]
    assert rows == [
        {
            "current": True,
            "name": "dev",
            "clusters": ["connect"],
            "bootstrap_servers": "b1:9092",
            "protected": False,
            "error": "",
        },
        {
            "current": False,
            "name": "prod",
            "clusters": ["game"],
            "bootstrap_servers": "",
            "protected": True,
            "error": "",
        },
    ]
    shown = json.loads(run_seamark("context", "show", "-o", "json").out)
    settings = {setting["key"]: setting["value"] for setting in shown["settings"]}
    assert shown["name"] == "dev"
    assert "http://w2:8083" in settings["connect.connect.urls"]


def test_origins_are_shown_when_asked():
    add("dev", "--connect", "http://w1:8083")
    shown = json.loads(run_seamark("context", "show", "dev", "--origins", "-o", "json").out)
    origins = {setting["key"]: setting["origin"] for setting in shown["settings"]}
    assert "config.yaml:" in origins["connect.connect.urls"]
    assert origins["protected"] == "default"


def test_current_context_is_changed_and_what_overrides_it_is_told(monkeypatch):
    add("dev", "--connect", "http://w1:8083", "--use")
    add("prod", "--connect", "http://w2:8083")
    ended = run_seamark("context", "use", "prod")
    assert ended.code == 0
    assert run_seamark("context", "list", "-o", "csv", "--no-headers").out.splitlines()[1].startswith("true,prod")
    monkeypatch.setenv("SEAMARK_CONTEXT", "prod")
    ended = run_seamark("context", "use", "dev")
    assert "note: SEAMARK_CONTEXT still selects another context than dev" in ended.err


def test_context_is_renamed_and_removed(monkeypatch):
    add("dev", "--bootstrap", "127.0.0.1:9092", "--use")
    ended = run_seamark("context", "rename", "dev", "lab")
    assert (ended.code, ended.err.splitlines()[0]) == (0, "context dev renamed to lab in config/seamark/config.yaml")
    assert json.loads(run_seamark("context", "list", "-o", "json").out)["items"][0]["name"] == "lab"
    monkeypatch.setenv("SEAMARK_CONTEXT", "lab")
    ended = run_seamark("context", "remove", "lab")
    assert ended.err.splitlines() == [
        "context lab removed from config/seamark/config.yaml",
        "note: SEAMARK_CONTEXT still selects context lab, which no longer exists",
    ]
    assert run_seamark("context", "remove", "lab").code == 64
    assert "use: seamark context remove lab" in run_seamark("context", "delete", "lab").err


def test_unknown_context_is_a_usage_error():
    assert run_seamark("context", "use", "nope").code == 64
    assert run_seamark("context", "show", "nope").code == 64
    assert run_seamark("context", "show").code == 64


def test_context_that_is_there_is_not_replaced_by_accident():
    add("dev", "--connect", "http://w1:8083")
    ended = add("dev", "--connect", "http://w2:8083")
    assert ended.code == 1
    assert "--replace" in ended.err
    assert add("dev", "--connect", "http://w2:8083", "--replace").code == 0


def test_password_by_reference_and_by_file_is_kept_as_a_reference(config, tmp_path):
    (tmp_path / "pw.txt").write_text("hunter2\n")
    assert add("a", "--connect", "https://w:1", "--username", "ops", "--password", "secret://env/PW").code == 0
    assert add("b", "--connect", "https://w:1", "--username", "ops", "--password", "@pw.txt").code == 0
    text = config.read_text()
    assert "password: secret://env/PW" in text
    assert f"password: secret://file/{tmp_path}/pw.txt" in text
    assert "hunter2" not in text


def test_password_from_standard_input_is_written_to_the_private_file(config):
    ended = add("a", "--connect", "https://w:1", "--username", "ops", "--password", "-", stdin="hunter2\nmore\n")
    assert ended.code == 0
    assert "a reference is safer" in ended.err
    assert "password: hunter2\n" in config.read_text()
    assert "hunter2" not in ended.err
    shown = run_seamark("context", "show", "a").out
    assert "(sensitive)" in shown
    assert "hunter2" not in shown


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--connect", "http://w:1", "--password", "hunter2"], "--password accepts only a reference to a secret"),
        (["--connect", "http://ops:hunter2@w:1"], "a URL must not contain a user or password"),
        (["--connect", "ftp://ops:hunter2@w:1"], "is not [CLUSTER=]URL"),
        (["--connect", "w1"], "'w1' is not [CLUSTER=]URL"),
        (["--kafka", "sasl.password=hunter2"], "sasl.password is a secret"),
        (["--kafka", "oops"], "'oops' is not KEY=VALUE"),
        (["--bootstrap", "b:1", "--username", "u"], "are for Connect workers"),
        ([], "a context needs a Connect worker or brokers"),
        (["--connect", "http://w:1", "--password", "@nowhere"], "the file of --password does not exist"),
        (["--connect", "http://w:1", "--password", "-"], "standard input is empty"),
        (["--connect", "http://w:1", "--worker-config", "nowhere"], "the worker config does not exist"),
        (["--connect", "a=http://w:1", "--connect", "b=http://w:2", "--worker-config", "f"], "is ambiguous"),
    ],
)
def test_wrong_context_is_refused_without_its_secret(config, argv, message):
    ended = add("dev", *argv)
    assert ended.code == 64
    assert message in ended.err
    assert "hunter2" not in ended.err
    assert not config.exists()


def test_password_is_never_written_into_the_file_of_a_project(tmp_path):
    ended = add("dev", "--connect", "http://w:1", "--password", "-", "--project", stdin="hunter2\n")
    assert ended.code == 64
    assert not (tmp_path / "seamark.yaml").exists()


def test_project_file_is_written_when_asked(tmp_path):
    assert add("dev", "--connect", "http://w:1", "--project").code == 0
    assert "http://w:1" in (tmp_path / "seamark.yaml").read_text()


def test_worker_config_is_kept_with_its_whole_path(config, tmp_path):
    (tmp_path / "a=b.properties").write_text("group.id=g1\noffset.storage.topic=o1\n")
    assert add("dev", "--connect", "game=http://w:1", "--worker-config", "game=a=b.properties").code == 0
    assert str(tmp_path / "a=b.properties") in config.read_text()
    shown = run_seamark("context", "show", "dev").out
    assert "g1" in shown


def test_kafka_settings_are_kept_verbatim(config):
    assert add("dev", "--bootstrap", "b:9092", "--kafka", "security.protocol=SSL").code == 0
    assert "security.protocol: SSL" in config.read_text()


def test_broken_context_does_not_hide_the_others(config):
    config.parent.mkdir(parents=True)
    config.write_text(
        "contexts:\n  good:\n    kafka: {bootstrap.servers: 'b:1'}\n"
        "  bad:\n    connect: {game: {urls: ['http://w:1'], worker_config: nowhere.properties}}\n"
    )
    rows = json.loads(run_seamark("context", "list", "-o", "json").out)["items"]
    assert [(row["name"], bool(row["error"])) for row in rows] == [("bad", True), ("good", False)]


OK = Finding("connect.reachable", Severity.OK, "game http://w1:8083", "answers, Connect 4.3.1")
DEAD = Finding("kafka.reachable", Severity.ERROR, "b:9092", "does not answer", "start it")
OTHER = Finding("connect.same-cluster", Severity.ERROR, "game", "two clusters", "split them")


@pytest.mark.parametrize(("findings", "code"), [([OK], 0), ([OK, DEAD], 6), ([OTHER], 1), ([OTHER, DEAD], 6)])
def test_context_test_says_what_it_saw(findings, code):
    fleet = StubFleet(findings=findings)
    ended = run_seamark("context", "test", "prod", fleet=fleet)
    assert ended.code == code
    assert all(finding.message in ended.out for finding in findings)
    assert (fleet.opened, fleet.reads, fleet.closed) == (["prod"], 1, 1)


def test_context_test_takes_the_global_option_too():
    fleet = StubFleet(findings=[OK])
    run_seamark("--context", "prod", "context", "test", fleet=fleet)
    assert fleet.opened == ["prod"]


def test_shell_is_offered_contexts(monkeypatch, capsys):
    add("dev", "--connect", "http://w:1")
    add("prod", "--connect", "http://w:1")
    monkeypatch.setenv("_SEAMARK_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "seamark context use p")
    monkeypatch.setenv("COMP_CWORD", "3")
    run_seamark()
    assert capsys.readouterr().out.split() == ["plain,prod"]
