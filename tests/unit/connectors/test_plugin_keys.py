"""`plugins show`: how a plugin is found, what its skeleton contains, and that spec files can read it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from seamark.connect.model import ConfigKey, Plugin
from seamark.connect.plugins import PluginDefinition
from seamark.connectors.plugins import format_skeleton
from seamark.connectors.worker_views import KEY_LISTING
from seamark.errors import NotFoundError, UsageError
from seamark.specs.load import read_spec
from tests.unit.connectors.operating import W1, W2, OperatedConnect
from tests.unit.fleet.living import FILE_KEYS, SOURCE, open_living_fleet

JSON = "org.apache.kafka.connect.json.JsonConverter"
INSERT = "org.apache.kafka.connect.transforms.InsertField"
OTHERS = [
    Plugin(JSON, "converter", "4.3.1"),
    Plugin(JSON, "header_converter", "4.3.1"),
    Plugin(f"{INSERT}$Key", "transformation", "4.3.1"),
    Plugin(f"{INSERT}$Value", "transformation", "4.3.1"),
]
NASTY = (
    "yes",
    "null",
    "010",
    "12:30",
    "a: b",
    "# no",
    "${{ env.HOME }}",
    "$${{ each.x }}",
    "",
    " x ",
    "é",
    'q"\\',
    "-1",
)


@pytest.fixture
def game():
    made = OperatedConnect()
    for url in made.urls:
        made.plugins[url] += OTHERS
    made.keys |= {plugin.class_name: (ConfigKey("schemas.enable", "BOOLEAN"),) for plugin in OTHERS}
    return made


@pytest.fixture
def connectors(game, tmp_path):
    with open_living_fleet(tmp_path, game, urls=(W1, W2)) as fleet:
        yield fleet.connectors


def read_configs(text, tmp_path):
    path = tmp_path / "skeleton.yaml"
    path.write_text(text, encoding="utf-8")
    return {connector.name: connector for connector in read_spec([path]).connectors}


@pytest.mark.parametrize("name", [SOURCE, "FileStreamSourceConnector", "FileStreamSource"])
def test_plugin_is_found_by_class_last_part_and_alias(connectors, name):
    found = connectors.plugin(name)
    assert (found.cluster, found.class_name, found.types, found.version) == ("game", SOURCE, ("source",), "4.3.1")
    assert found.keys == FILE_KEYS


@pytest.mark.parametrize("name", [JSON, "JsonConverter", "Json"])
def test_class_of_two_types_has_both(connectors, name):
    assert connectors.plugin(name).types == ("converter", "header_converter")


def test_nested_class_is_found_by_its_last_part_and_its_outer_class_is_ambiguous(connectors):
    assert connectors.plugin("InsertField$Key").class_name == f"{INSERT}$Key"
    with pytest.raises(UsageError, match="ambiguous") as caught:
        connectors.plugin("InsertField")
    assert caught.value.cause == f"{INSERT}$Key, {INSERT}$Value"


def test_unknown_plugin_suggests_a_similar_one(connectors, game):
    with pytest.raises(NotFoundError) as caught:
        connectors.plugin("FileStreamSorce")
    assert caught.value.hint == f"run: seamark plugins show {SOURCE}"
    game.away = {W2}
    with pytest.raises(NotFoundError) as caught:
        connectors.plugin("Nope")
    assert caught.value.cause == f"these workers did not respond: game {W2}"


def test_default_of_a_password_is_never_shown():
    (item,) = (item for item in KEY_LISTING.build_items(FILE_KEYS) if item["name"] == "vault.token")
    assert item["default"] == "(sensitive)"
    assert "[hidden]" not in format_skeleton(
        PluginDefinition("game", SOURCE, ("source",), "", FILE_KEYS), with_cluster=False
    )


def test_skeleton_is_a_spec_with_placeholders_for_required_keys(connectors, tmp_path):
    text = format_skeleton(connectors.plugin(SOURCE), with_cluster=True)
    found = read_configs(text, tmp_path)["CHANGE_ME"]
    assert found.config == {"connector.class": SOURCE, "topic": "CHANGE_ME"}
    assert found.cluster == "game"
    assert text.index("topic:") < text.index("#file:"), "required keys come first"
    assert "# The file. If not set, standard input. (STRING, importance high)" in text


def test_optional_keys_of_a_skeleton_have_their_defaults_and_secrets_are_references(connectors, tmp_path):
    text = format_skeleton(connectors.plugin(SOURCE), with_cluster=False)
    everything = re.sub(r"^( +)#(?! )", r"\1", text, flags=re.MULTILINE)
    assert read_configs(everything, tmp_path)["CHANGE_ME"].config == {
        "connector.class": SOURCE,
        "topic": "CHANGE_ME",
        "file": "CHANGE_ME",
        "batch.size": "2000",
        "vault.token": "secret://env/VAULT_TOKEN",
    }


def test_defaults_are_read_back_from_a_skeleton_as_they_are(tmp_path):
    keys = tuple(ConfigKey(f"key.{number}", "STRING", default=text) for number, text in enumerate(NASTY))
    plugin = PluginDefinition("game", SOURCE, ("source",), "1", (*keys, replace(FILE_KEYS[1], is_required=False)))
    everything = re.sub(r"^( +)#(?! )", r"\1", format_skeleton(plugin, with_cluster=False), flags=re.MULTILINE)
    config = read_configs(everything, tmp_path)["CHANGE_ME"].config
    assert [config[f"key.{number}"] for number in range(len(NASTY))] == list(NASTY)


def test_documentation_can_not_leave_its_comment(tmp_path):
    evil = ConfigKey("a", "STRING", documentation="x\n      connection.url: evil\x1b[2J\u2028y: z")
    text = format_skeleton(PluginDefinition("game", SOURCE, ("source",), "1", (evil,)), with_cluster=False)
    assert read_configs(text, tmp_path)["CHANGE_ME"].config == {"connector.class": SOURCE}
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("name", "config"),
    [
        (
            "InsertField$Value",
            {"transforms": "insertField", "transforms.insertField.type": f"{INSERT}$Value"},
        ),
        ("Json", {"value.converter": JSON}),
    ],
)
def test_skeleton_of_another_plugin_selects_it_in_a_connector(connectors, tmp_path, name, config):
    text = format_skeleton(connectors.plugin(name), with_cluster=False)
    assert read_configs(text, tmp_path)["CHANGE_ME"].config == {"connector.class": "CHANGE_ME", **config}
    prefix = next(key for key in config if config[key] in (JSON, f"{INSERT}$Value")).removesuffix(".type")
    assert f"#{prefix}.schemas.enable: CHANGE_ME" in text
