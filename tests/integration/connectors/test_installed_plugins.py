"""`seamark plugins` on real workers of two versions."""

from __future__ import annotations

import io
import json
import re

import pytest

from seamark.cli.main import execute
from seamark.cli.session import Session
from seamark.specs.load import read_spec

JSON = "org.apache.kafka.connect.json.JsonConverter"


@pytest.fixture(autouse=True)
def _context(stack, tmp_path, monkeypatch):
    monkeypatch.setenv("SEAMARK_CONFIG", stack.context_file)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def seamark(*argv):
    out, err = io.StringIO(), io.StringIO()
    code = execute(argv, session=Session(out=out, err=err, stdin=io.StringIO()))
    return code, out.getvalue(), err.getvalue()


def list_plugins(cluster, *argv):
    code, out, err = seamark("plugins", "list", "--cluster", cluster, "-o", "json", *argv)
    assert code == 0, err
    return json.loads(out)["items"]


def test_all_types_of_plugins_are_listed_on_every_version(stack):
    for cluster in ("connect", "connect-3-5-2"):
        items = list_plugins(cluster)
        assert {item["type"] for item in items} == {
            *("source", "sink", "transformation", "predicate", "converter", "header_converter")
        }
        assert all(len(item["workers"]) == 2 and not item["trouble"] for item in items)


def uncomment(skeleton):
    """Return a skeleton with all optional keys."""
    return re.sub(r"^( +)#(?! )", r"\1", skeleton, flags=re.MULTILINE)


def test_keys_of_every_plugin_are_shown_and_its_skeleton_is_a_spec(stack, tmp_path):
    for cluster in ("connect", "connect-3-5-2"):
        for class_name in sorted({item["class"] for item in list_plugins(cluster)}):
            code, out, err = seamark("plugins", "show", class_name, "--cluster", cluster, "-o", "json")
            assert code == 0, err
            found = json.loads(out)
            assert found["class"] == class_name
            code, out, err = seamark("plugins", "show", class_name, "--cluster", cluster, "--skeleton")
            assert code == 0, err
            for number, text in enumerate((out, uncomment(out))):
                path = tmp_path / f"{number}.yaml"
                path.write_text(text)
                (connector,) = read_spec([path]).connectors
                names = {key["name"] for key in found["keys"]} - {"name", "connector.class", "converter.type"}
                required = {key["name"] for key in found["keys"] if key["required"]} & names
                ends = tuple(key.rpartition(".")[2] for key in (names if number else required))
                assert connector.cluster == cluster
                assert all(any(key.endswith(end) for key in connector.config) for end in ends), class_name


def test_keys_have_what_the_plugin_defines(stack):
    code, out, err = seamark("plugins", "show", "JdbcSource", "--cluster", "connect", "-o", "json")
    assert code == 0, err
    keys = {key["name"]: key for key in json.loads(out)["keys"]}
    assert keys["connection.url"] == {
        "name": "connection.url",
        "type": "STRING",
        "required": True,
        "default": None,
        "importance": "HIGH",
        "group": "Database",
        "documentation": "JDBC connection URL.",
    }
    assert (keys["poll.interval.ms"]["type"], keys["poll.interval.ms"]["default"]) == ("INT", "5000")
    code, out, _ = seamark("plugins", "show", "JdbcSource", "--cluster", "connect", "--skeleton")
    assert "#connection.password: secret://env/CONNECTION_PASSWORD" in out


def test_types_select_plugins(stack):
    # From 4.x on, Connect lists one class as converter and as header_converter.
    types = [item["type"] for item in list_plugins("connect", JSON)]
    assert types == ["converter", "header_converter"]
    (item,) = list_plugins("connect", JSON, "--type", "converter")
    assert (item["class"], item["type"], item["version"]) == (JSON, "converter", "4.3.1")
    transforms = list_plugins("connect", "--type", "transform", "InsertField*")
    assert [item["class"].rpartition(".")[2] for item in transforms] == ["InsertField$Key", "InsertField$Value"]


def test_schema_has_the_keys_of_installed_plugins(stack):
    code, out, err = seamark("schema", "--plugins")
    assert code == 0, err
    conditions = json.loads(out)["definitions"]["config"]["allOf"]
    keys = {part["if"]["properties"]["connector.class"]["enum"][-1]: part["then"]["properties"] for part in conditions}
    assert keys["JdbcSource"]["poll.interval.ms"]["default"] == "5000"
    assert "required" in keys["FileStreamSource"]["topic"]["description"]
    # MirrorMaker's connectors are installed in one of the two Connect clusters.
    assert "MirrorSource" in keys
