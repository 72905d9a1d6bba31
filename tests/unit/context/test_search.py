"""The search order, the merge of layers, and the origin of each value."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from seamark.context import Context, load_contexts
from seamark.context.search import SYSTEM_DIR, Surroundings
from seamark.errors import ConfigurationError, ContextNotFoundError, MissingSettingError

DEV = """\
current: dev
contexts:
  dev:
    kafka:
      bootstrap.servers: 127.0.0.1:9092
    connect:
      game:
        urls: [http://127.0.0.1:8083, http://127.0.0.1:8084]
        group_id: connect-cluster
        exactly_once: false
        consumer_group_id: null
    protected: true
"""


def with_client_id(text: str) -> str:
    return f"contexts:\n  dev:\n    kafka:\n      client.id: {text}\n      bootstrap.servers: b:1\n"


def test_the_file_of_the_brief_opens_with_every_field(workplace) -> None:
    workplace.write(DEV)
    context = workplace.open()
    assert isinstance(context, Context)
    assert (context.name, context.protected, context.insecure) == ("dev", True, False)
    assert context.kafka.bootstrap_servers == "127.0.0.1:9092"
    assert context.kafka.client_config() == {"bootstrap.servers": "127.0.0.1:9092"}
    game = context.connect["game"]
    assert game.urls == ("http://127.0.0.1:8083", "http://127.0.0.1:8084")
    assert (game.name, game.group_id, game.exactly_once, game.verify) == ("game", "connect-cluster", False, True)
    assert (game.username, game.password, game.ca_file, game.worker_config) == (None, None, None, None)
    assert (game.offsets_topic, game.config_topic, game.status_topic, game.consumer_group_id) == (None,) * 4


def test_every_value_knows_its_line(workplace) -> None:
    workplace.write(DEV)
    assert workplace.origins() == {
        "context": "seamark.yaml:1",
        "protected": "seamark.yaml:12",
        "read_only": "default",
        "insecure": "default",
        "journal": "default",
        "journal_topic": "default",
        "in_flight_timeout": "default",
        "offset_verification": "default",
        "kafka.bootstrap.servers": "seamark.yaml:5",
        "connect.game.urls": "seamark.yaml:8",
        "connect.game.tls_verify": "default",
        "connect.game.group_id": "seamark.yaml:9",
        "connect.game.exactly_once": "seamark.yaml:10",
    }


@pytest.mark.parametrize("strongest", ["flag", "environment", "project", "user", "system"])
def test_the_strongest_place_wins_and_is_named(workplace, strongest: str) -> None:
    order = ["system", "user", "project", "environment", "flag"]
    present = order[: order.index(strongest) + 1]
    writers = {
        "system": lambda: workplace.write_system(with_client_id("system")),
        "user": lambda: workplace.write_user(with_client_id("user")),
        "project": lambda: workplace.write(with_client_id("project")),
        "environment": lambda: workplace.environ.update({"SEAMARK_CONTEXTS__DEV__KAFKA__CLIENT_ID": "environment"}),
        "flag": lambda: None,
    }
    for place in present:
        writers[place]()
    overrides = {"kafka.client.id": "flag"} if strongest == "flag" else None
    context = workplace.open("dev", overrides=overrides)
    assert context.kafka.client_config()["client.id"] == strongest
    shown = {setting.key: str(setting.origin) for setting in context.settings()}["kafka.client.id"]
    assert (
        shown
        == {
            "flag": "flag",
            "environment": "SEAMARK_CONTEXTS__DEV__KAFKA__CLIENT_ID",
            "project": "seamark.yaml:4",
            "user": "~/.config/seamark/config.yaml:4",
            "system": f"{workplace.system}/config.yaml:4",
        }[strongest]
    )


def test_layers_merge_value_by_value(workplace) -> None:
    workplace.write_system("contexts: {dev: {kafka: {bootstrap.servers: 'b:1', client.id: low}, protected: true}}")
    workplace.write_user("contexts: {dev: {connect: {a: {urls: 'http://a:1', group_id: g}}}}")
    workplace.write("contexts: {dev: {kafka: {client.id: high}, connect: {a: {urls: 'http://b:2'}}}}")
    context = workplace.open("dev")
    assert context.kafka.client_config() == {"bootstrap.servers": "b:1", "client.id": "high"}
    assert (context.connect["a"].urls, context.connect["a"].group_id) == (("http://b:2",), "g")
    assert context.protected is True


def test_null_is_as_good_as_no_line(workplace) -> None:
    workplace.write_user("contexts: {dev: {connect: {a: {urls: 'http://a:1', group_id: g}}}}")
    workplace.write("contexts: {dev: {connect: {a: {group_id: null}}}}")
    assert workplace.open("dev").connect["a"].group_id == "g"


def test_project_file_is_found_from_a_folder_below_and_named_from_there(workplace) -> None:
    workplace.write(DEV)
    workplace.cwd = workplace.project / "a" / "b"
    workplace.cwd.mkdir(parents=True)
    assert workplace.origins()["context"] == "../../seamark.yaml:1"


def test_search_stops_at_the_repository(workplace) -> None:
    (workplace.project.parent / "seamark.yaml").write_text(DEV)
    with pytest.raises(ContextNotFoundError, match="there is no context yet"):
        workplace.open()
    (workplace.project / ".git").rmdir()
    assert workplace.open().name == "dev"


def test_seamark_config_replaces_all_files(workplace) -> None:
    workplace.write(DEV)
    workplace.write("contexts: {lab: {kafka: {bootstrap.servers: 'l:1'}}}", "lab.yaml")
    workplace.environ["SEAMARK_CONFIG"] = "lab.yaml"
    assert workplace.load().names == ("lab",)
    workplace.environ["SEAMARK_CONFIG"] = "nowhere.yaml"
    with pytest.raises(ConfigurationError, match="SEAMARK_CONFIG names a file that doesn't exist"):
        workplace.load()


def test_current_is_chosen_by_name_then_variable_then_file_then_as_the_only_one(workplace) -> None:
    workplace.write_user("contexts: {only: {kafka: {bootstrap.servers: 'o:1'}}}")
    assert (workplace.load().current, str(workplace.load().current_origin)) == ("only", "default")
    workplace.write("contexts: {dev: {}, lab: {}}")
    assert workplace.load().current is None
    with pytest.raises(ContextNotFoundError, match="no context is chosen") as caught:
        workplace.open()
    assert "known contexts: dev, lab, only" in caught.value.cause
    workplace.write("current: lab\ncontexts: {dev: {}, lab: {}}")
    assert workplace.open().name == "lab"
    workplace.environ["SEAMARK_CONTEXT"] = "dev"
    assert workplace.origins()["context"] == "SEAMARK_CONTEXT"
    assert workplace.open("only").name == "only"


def test_context_not_found_names_what_is_known_and_where_it_looked(workplace) -> None:
    workplace.write(DEV)
    workplace.environ["SEAMARK_CONTEXT"] = "prod"
    with pytest.raises(ContextNotFoundError) as caught:
        workplace.open()
    error = caught.value
    assert error.message == "there is no context prod"
    assert error.cause == (
        "SEAMARK_CONTEXT names it; known contexts: dev; searched: project file seamark.yaml: read; "
        f"user file ~/.config/seamark/config.yaml: not found; system file {workplace.system}/config.yaml: not found"
    )
    assert error.exit_code == 64


def test_missing_setting_lists_every_place_in_order(workplace) -> None:
    workplace.write("contexts: {dev: {connect: {game: {urls: 'http://a:1', worker_config: w.properties}}}}")
    workplace.write("status.storage.topic=s\n", "w.properties")
    workplace.write_user("contexts: {other: {}}")
    error = workplace.open("dev").missing("connect.game.offsets_topic")
    assert isinstance(error, MissingSettingError)
    assert error.message == "connect.game.offsets_topic is not set in context dev"
    assert error.cause == (
        "searched: 1. SEAMARK_CONTEXTS__DEV__CONNECT__GAME__OFFSETS_TOPIC: not set; "
        "2. project file seamark.yaml: read, connect.game.offsets_topic not found; "
        "3. user file ~/.config/seamark/config.yaml: read, has no context dev; "
        f"4. system file {workplace.system}/config.yaml: not found; "
        "5. worker file w.properties: offset.storage.topic not found; "
        "6. default: there is none"
    )
    assert "export SEAMARK_CONTEXTS__DEV__CONNECT__GAME__OFFSETS_TOPIC=" in error.hint


def test_kafka_client_without_servers_and_cluster_without_urls_are_missing_settings(workplace) -> None:
    workplace.write("contexts: {dev: {}, lab: {connect: {game: {group_id: g}}}}")
    assert workplace.open("dev").kafka.bootstrap_servers is None
    with pytest.raises(MissingSettingError, match=r"kafka\.bootstrap\.servers is not set") as caught:
        workplace.open("dev").kafka.client_config()
    assert "worker file (worker_config): not set" in caught.value.cause
    with pytest.raises(MissingSettingError, match=r"connect\.game\.urls is not set"):
        workplace.open("lab")


@pytest.mark.parametrize("mode", [0o646, 0o666])
def test_project_file_that_anybody_may_write_is_refused(workplace, mode: int) -> None:
    workplace.write(DEV).chmod(mode)
    with pytest.raises(ConfigurationError, match="not trusted") as caught:
        workplace.open()
    assert "any user can write to it" in caught.value.cause
    workplace.environ["SEAMARK_CONFIG"] = "seamark.yaml"
    assert workplace.open().name == "dev"


def test_project_file_of_a_stranger_is_refused(workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    workplace.write(DEV)
    real = Path.stat

    def stat(path: Path, **more: bool) -> os.stat_result:
        found = real(path, **more)
        if path.name != "seamark.yaml":
            return found
        fields = list(found)
        fields[4] = 4242
        return os.stat_result(fields)

    monkeypatch.setattr(Path, "stat", stat)
    with pytest.raises(ConfigurationError, match="not trusted"):
        workplace.open()


def test_real_defaults_are_used_where_nothing_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.chdir(tmp_path)
    found = Surroundings.build()
    assert (found.cwd, found.user_dir, found.system_dir) == (tmp_path, tmp_path / "xdg" / "seamark", SYSTEM_DIR)
    assert found.environ is os.environ


def test_a_folder_that_is_gone_or_closed_is_no_crash(
    workplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(ConfigurationError, match="current folder doesn't exist"):
        load_contexts(environ={}, user_dir=workplace.user)

    def closed(path: Path) -> bool:
        raise PermissionError

    monkeypatch.setattr(Path, "exists", closed)
    assert workplace.load().names == ()
