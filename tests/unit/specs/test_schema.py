"""`seamark schema`: the keys of plugins for editors."""

from __future__ import annotations

import json

import pytest
from ruamel.yaml import YAML

from seamark.connect.model import ConfigKey
from seamark.connect.plugins import PluginDefinition
from seamark.errors import UnreachableError
from seamark.specs.keys import build_schema
from tests.unit.connectors.operating import W1, W2, OperatedConnect
from tests.unit.fleet.living import FILE_KEYS, SINK, SOURCE, open_living_fleet
from tests.unit.json_schema import fits_part


def find_keys(schema, value, root=None):
    """Return the keys that an editor offers in a config, as yaml-language-server evaluates if and then."""
    root = root or schema
    if "$ref" in schema:
        return find_keys(root["definitions"][schema["$ref"].rpartition("/")[2]], value, root)
    found = dict(schema.get("properties", {}))
    for part in schema.get("allOf", []):
        if fits_part(part["if"], value, root):
            found |= part["then"]["properties"]
    return found


@pytest.fixture
def schema():
    keys = (ConfigKey("file", "STRING"), ConfigKey("tail", "STRING", default="x"))
    return build_schema(
        [
            PluginDefinition("game", SOURCE, ("source",), "1", FILE_KEYS),
            PluginDefinition("game", SINK, ("sink",), "1", keys),
        ]
    )


@pytest.mark.parametrize("name", [SOURCE, "FileStreamSourceConnector", "FileStreamSource"])
def test_keys_of_the_class_are_offered_by_every_name_of_it(schema, name):
    found = find_keys(schema["definitions"]["connector"]["properties"]["config"], {"connector.class": name}, schema)
    assert found.keys() == {"connector.class", "file", "topic", "batch.size", "vault.token"}
    assert found["batch.size"] == {"description": "Records per poll. (INT, importance low)", "default": "2000"}
    assert found["topic"]["description"] == "The topic to publish data to. (STRING, required, importance high)"


def test_keys_of_another_class_are_not_offered(schema):
    config = schema["definitions"]["each"]["properties"]["config"]
    assert find_keys(config, {"connector.class": SINK}, schema).keys() == {"connector.class", "file", "tail"}
    assert find_keys(config, {"connector.class": "com.example.Nope"}, schema).keys() == {"connector.class"}
    assert find_keys(config, {}, schema)["connector.class"]["examples"] == [SOURCE, SINK]


def test_default_of_a_password_is_not_in_the_schema(schema):
    assert "[hidden]" not in json.dumps(schema)


@pytest.mark.parametrize(
    "text",
    [
        f"connectors: [{{name: a, config: {{connector.class: {SOURCE}, topic: t, transforms.x.type: y}}}}]",
        "connectors: [{name: a, config: {connector.class: FileStreamSink, file: secret://env/F}}]",
        f"defaults: {{connector.class: {SOURCE}, batch.size: 5}}",
        "bases: {b: {connector.class: other.Class, anything: 1}}",
    ],
)
def test_files_that_fit_without_plugins_fit_with_them(schema, text):
    value = YAML(typ="safe", pure=True).load(text)
    assert fits_part(build_schema(), value, build_schema())
    assert fits_part(schema, value, schema)


def test_mistakes_are_still_found(schema):
    value = YAML(typ="safe", pure=True).load(
        f"connectors: [{{name: a, config: {{connector.class: {SOURCE}, topic: [t]}}}}]"
    )
    assert not fits_part(schema, value, schema)


def test_every_class_is_read_once_and_a_silent_worker_refuses_all(tmp_path):
    game = OperatedConnect()
    with open_living_fleet(tmp_path, game, urls=(W1, W2)) as fleet:
        found = fleet.connectors.plugin_definitions()
        assert [(one.class_name, one.types) for one in found] == [(SINK, ("sink",)), (SOURCE, ("source",))]
        assert game.calls["read_config_keys"] == 2
        game.away = {W2}
        with pytest.raises(UnreachableError):
            fleet.connectors.plugin_definitions()
