"""Sixty secrets that only their plugins' types reveal, through every command: none leaves seamark except to Connect."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from seamark.changes.images import hide_secrets
from seamark.connect.model import ConnectorStatus, State, Task, Validation
from seamark.core.secrets import MASK, PLUGIN_KEYS, mask_config, mask_value
from seamark.errors import RefusedError, UnreachableError
from seamark.report.data import OutputFormat
from tests.fakes.connect import FakeConnect, PluginSpec
from tests.fakes.connect.faults import Answer, Change
from tests.unit.fleet.living import SOURCE_CONFIG, LivingConnect, open_living_fleet
from tests.unit.test_canaries_change import REST_PASSWORD, Desk

# Neither a name nor a value here matches a pattern.
CANARIES = [f"plume{number:02d}quill" for number in range(60)]
C = iter(CANARIES)
SOURCE, OTHER = "org.example.FeedSourceConnector", "org.example.OtherSourceConnector"
TRANSFORM, PREDICATE, CONVERTER = "org.example.Sealing", "org.example.Matching", "org.example.WireConverter"
OWN = tuple(f"feed.route{number:02d}" for number in range(42))
PLUGINS = (
    PluginSpec(SOURCE, "source", "1.0", passwords=OWN),
    # The same keys without types: what was a secret must stay one when the class changes.
    PluginSpec(OTHER, "source", "1.0"),
    PluginSpec(TRANSFORM, "transformation", "1.0", passwords=("first", "second", "third")),
    PluginSpec(PREDICATE, "predicate", "1.0", passwords=("first", "second")),
    PluginSpec(CONVERTER, "converter", "1.0", passwords=("first", "second")),
)
SECRETS = (
    {key: next(C) for key in OWN}
    | {f"transforms.{alias}.{key}": next(C) for alias in "ab" for key in ("first", "second", "third")}
    | {f"predicates.p.{key}": next(C) for key in ("first", "second")}
    | {f"{kind}.converter.{key}": next(C) for kind in ("key", "value", "header") for key in ("first", "second")}
)
NEW = {key: next(C) for key in OWN[:3]}
FROM_FILE = next(C)
assert next(C, None) is None, "give every canary a place"
PLAIN = {
    "connector.class": SOURCE,
    "tasks.max": "1",
    "feed.name": "orders",
    "transforms": "a, b",
    "transforms.a.type": TRANSFORM,
    "transforms.b.type": TRANSFORM,
    "transforms.b.predicate": "p",
    "predicates": "p",
    "predicates.p.type": PREDICATE,
    "key.converter": CONVERTER,
    "value.converter": CONVERTER,
    "header.converter": CONVERTER,
}


def find_leaks(*texts: str) -> list[str]:
    return [canary for canary in CANARIES for text in texts if canary in text]


class TypedDesk(Desk):
    """A desk whose every output is searched for the canaries of this module."""

    def run(self, *argv: str, log: bool = True) -> int:
        # Each command line is a process of its own.
        PLUGIN_KEYS.forget()
        code = super().run(*argv, log=log)
        assert find_leaks(*self.written[-2:]) == [], argv
        return code

    def check_files(self) -> None:
        files = self.files()
        assert len(files) >= 3
        assert [(file.name, found) for file in files if (found := find_leaks(file.read_text(errors="replace")))] == []


@pytest.fixture(params=["4.3.1", "3.1.2"])
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[TypedDesk]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("seamark.connectors.run_state._lasts", lambda since, now, seconds: since is not None)
    with FakeConnect(version=request.param, username="ops", password=REST_PASSWORD, plugins=PLUGINS) as connect:
        yield TypedDesk(tmp_path, connect)


def build_secrets(desk: TypedDesk) -> dict[str, str]:
    """The secrets that the plugins report. Workers before 3.2 don't report the types of converters."""
    if desk.connect.setup.is_at_least(3, 2):
        return SECRETS
    return {key: value for key, value in SECRETS.items() if ".converter." not in key}


def test_the_canaries_match_no_pattern() -> None:
    found = {key: value for key, value in (SECRETS | NEW).items() if mask_value(key, value) != value}
    assert found == {}
    assert len({*SECRETS.values(), *NEW.values(), FROM_FILE}) == 60


LOOKS = [
    ("status",),
    ("doctor",),
    ("connectors", "list"),
    ("connectors", "show", "a"),
    ("connectors", "show", "broken"),
    ("journal", "show", "{change}"),
    ("connectors", "create", "-f", "{a}", "--name", "b", "--dry-run"),
    ("connectors", "update", "a", "-f", "{changed}", "--dry-run"),
    ("connectors", "update", "a", "--set", f"connector.class={OTHER}", "--dry-run"),
    ("connectors", "delete", "a", "--dry-run"),
    ("plan", "-f", "{spec}"),
    ("destroy", "-f", "{spec}", "--dry-run"),
    ("pull", "--dir", "{pulled}", "--dry-run"),
    ("journal", "export", "{change}"),
]


def test_no_command_shows_a_typed_secret(desk: TypedDesk) -> None:
    secrets = build_secrets(desk)
    places = {
        "a": desk.write("a.json", PLAIN | secrets),
        "changed": desk.write("changed.json", PLAIN | secrets | NEW | {"tasks.max": "2"}),
        "spec": str(Path(desk.write("spec/a.json", {"name": "a", "config": PLAIN | secrets | NEW})).parent),
    }
    places["pulled"] = str(Path(places["spec"]).parent / "pulled")
    desk.must("connectors", "create", "-f", places["a"], "--name", "a", "--yes")
    trace = f"org.example.Refused: the server refused {secrets[OWN[0]]}\n\tat org.example.Feed"
    desk.connect.add_connector(
        "broken", PLAIN | secrets, state="FAILED", tasks=["FAILED"], trace=trace, task_traces=[trace]
    )
    places["change"] = desk.newest()
    for argv in LOOKS:
        for form in OutputFormat:
            line = [part.format(**places) for part in argv]
            code = desk.run(*line, "-o", form.value, log=form is OutputFormat.TABLE)
            assert code == 0 or form.value not in {"table", "json"} or argv[0] == "doctor", desk.written[-1]
    desk.must("connectors", "show", "a")
    # What is no secret is shown.
    assert "orders" in desk.written[-2]
    desk.check_files()


def test_no_change_writes_a_typed_secret(desk: TypedDesk) -> None:
    secrets = build_secrets(desk)
    desk.must("connectors", "create", "-f", desk.write("a.json", PLAIN | secrets), "--name", "a", "--yes")
    assert desk.held("a") == {"name": "a"} | PLAIN | secrets
    desk.must("connectors", "update", "a", "-f", desk.write("b.json", PLAIN | secrets | NEW), "--yes")
    assert desk.held("a") == {"name": "a"} | PLAIN | secrets | NEW
    desk.must("connectors", "update", "a", "--set", "tasks.max=2", "--out", "set.plan")
    desk.must("apply", "set.plan", "--yes")
    assert desk.held("a") == {"name": "a"} | PLAIN | secrets | NEW | {"tasks.max": "2"}
    desk.must("journal", "undo", desk.newest(), "--yes")
    assert desk.held("a") == {"name": "a"} | PLAIN | secrets | NEW
    desk.must("connectors", "update", "a", "--set", f"connector.class={OTHER}", "--yes")
    desk.must("connectors", "update", "a", "--set", f"connector.class={SOURCE}", "--yes")
    desk.must("connectors", "create", "-f", desk.write("c.json", PLAIN | secrets), "--name", "c", "--out", "c.plan")
    assert desk.run("apply", "c.plan", "--yes") == 5
    desk.must("connectors", "rename", "a", "d", "--allow-offset-loss", "--yes")
    desk.must("connectors", "delete", "d", "--yes")
    assert desk.run("journal", "undo", desk.newest(), "--yes") == 5
    desk.check_files()


def test_no_apply_of_files_writes_a_typed_secret(desk: TypedDesk) -> None:
    secrets = build_secrets(desk)
    spec = str(Path(desk.write("spec/a.json", {"name": "a", "config": PLAIN | secrets})).parent)
    desk.must("apply", "-f", spec, "--yes")
    desk.write("spec/a.json", {"name": "a", "config": PLAIN | secrets | NEW | {OWN[9]: FROM_FILE}})
    desk.must("plan", "-f", spec, "--out", "spec.plan")
    assert desk.run("apply", "spec.plan", "--yes") == 5
    desk.must("apply", "-f", spec, "--yes")
    assert desk.held("a") == {"name": "a"} | PLAIN | secrets | NEW | {OWN[9]: FROM_FILE}
    desk.must("pull", "--dir", str(desk.folder / "pulled"))
    pulled = "".join(file.read_text() for file in (desk.folder / "pulled").rglob("*") if file.is_file())
    assert "feed.name: orders" in pulled
    assert pulled.count("secret://env/") == len(secrets)
    desk.must("destroy", "-f", spec, "--yes")
    desk.check_files()


def test_no_error_quotes_a_typed_secret(desk: TypedDesk) -> None:
    secrets = build_secrets(desk)
    body = f"Invalid value {secrets[OWN[0]]} for configuration, and {secrets['transforms.a.first']}"
    desk.connect.faults.add(match="POST /connectors*", do=Answer(400, body))
    file = desk.write("a.json", PLAIN | secrets)
    assert desk.run("connectors", "create", "-f", file, "--name", "a", "--yes") == 1
    assert "Invalid value (sensitive)" in desk.written[-1]
    desk.check_files()


def test_no_validation_quotes_a_typed_secret(desk: TypedDesk) -> None:
    secrets = build_secrets(desk)
    spec = str(Path(desk.write("spec/a.json", {"name": "a", "config": PLAIN | secrets | {"tasks.max": "none"}})).parent)
    desk.connect.faults.add(
        # The first request of workers before 3.2 reads the types.
        match="PUT /connector-plugins/*",
        do=Change(lambda body: quote_values(body, secrets[OWN[0]])),
        times=None,
    )
    assert desk.run("plan", "-f", spec) == 5
    assert "Invalid value (sensitive) for" in desk.written[-1]


def quote_values(body: dict[str, Any], value: str) -> dict[str, Any]:
    for entry in body["configs"]:
        entry["value"]["errors"] = [f"Invalid value {value} for {entry['value']['name']}"]
    return {**body, "error_count": 1}


class TestUnknownTypes:
    """A worker that can't report the types of a plugin: every value of that plugin is a secret."""

    @pytest.fixture
    def desk(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TypedDesk]:
        monkeypatch.chdir(tmp_path)
        with FakeConnect(username="ops", password=REST_PASSWORD, plugins=PLUGINS) as connect:
            connect.faults.add(match="GET /connector-plugins/*", do=Answer(403, "not allowed"), times=None)
            yield TypedDesk(tmp_path, connect)

    def test_all_values_of_the_plugin_are_hidden(self, desk: TypedDesk) -> None:
        desk.must("connectors", "create", "-f", desk.write("a.json", PLAIN | SECRETS), "--name", "a", "--yes")
        desk.must("connectors", "show", "a")
        shown = desk.written[-2]
        assert "orders" not in shown
        assert SOURCE in shown
        assert f"values of {SOURCE} are hidden: its types can't be read" in shown
        desk.must("connectors", "update", "a", "--set", "tasks.max=2", "--dry-run")
        assert f"the types of plugin {SOURCE} can't be read" in desk.written[-2]
        desk.must("connectors", "update", "a", "--set", "tasks.max=2", "--yes")
        desk.must("journal", "undo", desk.newest(), "--yes")
        assert desk.held("a") == {"name": "a"} | PLAIN | SECRETS
        desk.must("pull", "--dir", str(desk.folder / "pulled"))
        desk.check_files()


def test_types_are_read_once_per_class_however_many_connectors(tmp_path: Path) -> None:
    game = LivingConnect()
    classes = [f"org.example.Feed{number}SourceConnector" for number in range(20)]
    game.passwords = dict.fromkeys(classes, ("route",))
    for number in range(2000):
        name = classes[number % 20]
        game.add(f"c{number}", {"connector.class": name, "tasks.max": "1", "route": f"quill{number}", "topic": "t"})
    with open_living_fleet(tmp_path, game) as fleet:
        owners = [f"c{number}" for number in range(0, 2000, 10)]
        planned = fleet.connectors.delete(owners)
        assert "quill" not in json.dumps(planned.plan.to_dict())
        assert fleet.apply(planned).is_done
        journal = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
        assert b"quill" not in journal
        assert b"hmac-sha256" in journal
    assert game.calls["read_password_keys"] <= 20


def test_a_worker_that_is_gone_is_no_reason_to_guess(tmp_path: Path) -> None:
    game = LivingConnect()
    game.add("a", SOURCE_CONFIG | {"route": "quill"})
    game.passwords[SOURCE_CONFIG["connector.class"]] = UnreachableError("no worker answers")
    with open_living_fleet(tmp_path, game) as fleet, pytest.raises(UnreachableError):
        fleet.connectors.set("a", {"tasks.max": "2"})


def test_a_plan_that_validate_proves_wrong_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    game = LivingConnect()
    plugin = SOURCE_CONFIG["connector.class"]
    monkeypatch.setattr(game, "validate_config", lambda *_: Validation(plugin, 0, {}, frozenset({"route"})))
    spec = tmp_path / "spec" / "a.json"
    spec.parent.mkdir()
    spec.write_text(json.dumps({"name": "a", "config": SOURCE_CONFIG | {"route": "quill"}}))
    with open_living_fleet(tmp_path, game) as fleet, pytest.raises(RefusedError) as caught:
        fleet.plan(spec)
    assert "route: another worker doesn't type this key as PASSWORD" in caught.value.cause
    assert "quill" not in str(caught.value.as_dict())


@pytest.mark.parametrize("client", ["producer", "consumer", "admin"])
def test_passwords_of_the_clients_are_known_without_asking(client: str) -> None:
    keys = ("ssl.truststore.certificates", "ssl.keystore.certificate.chain", "ssl.keystore.key")
    config = {f"{client}.override.{key}": "quill" for key in keys} | {f"{client}.override.linger.ms": "5"}
    shown = mask_config({"connector.class": "org.apache.kafka.connect.json.X", **config})
    assert [key for key, value in shown.items() if value == MASK] == [f"{client}.override.{key}" for key in keys]


def test_a_plan_hides_what_one_of_its_clusters_can_not_report() -> None:
    PLUGIN_KEYS.remember("game", "org.example.X", frozenset())
    config = {"connector.class": "org.example.X", "route": "quill"}
    assert hide_secrets(config) == config
    PLUGIN_KEYS.remember_unknown("lake", "org.example.X", "404")
    assert hide_secrets(config) == config | {"route": MASK}


def test_a_class_behind_a_reference_has_no_known_types() -> None:
    config = {"connector.class": "secret://env/CLASS", "route": "quill"}
    assert hide_secrets(config) == config | {"route": MASK}


def test_silent_workers_are_asked_once_for_many_failed_connectors(tmp_path: Path) -> None:
    game = LivingConnect()
    game.passwords[SOURCE_CONFIG["connector.class"]] = UnreachableError("no worker answers")
    for number in range(50):
        game.add(f"c{number}", SOURCE_CONFIG, failed=[0])
    build = game._build
    trace = ConnectorStatus(State.RUNNING, tasks=(Task(0, State.FAILED, trace="boom"),))
    game._build = lambda name: replace(build(name), status=trace)
    with open_living_fleet(tmp_path, game) as fleet:
        assert len(fleet.connectors.list().items) == 50
    assert game.calls["read_password_keys"] == 1
