"""docs/reference/spec-files.md and the schema say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from seamark.specs.keys import CONNECTOR_KEYS, FOLDER_KEYS, build_file_keys, build_schema, render_schema
from tests.unit.json_schema import fits_schema
from tests.unit.specs.test_yaml_file import SKETCH

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "reference" / "spec-files.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"^```\w+ config/(\S+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))


def test_the_files_of_the_page_load_together(folder):
    folder.environ.update(STAGE="dev", SHARDS="a,b")
    for name, text in BLOCKS.items():
        folder.write(name, text)
    assert len(BLOCKS) == 6
    spec = folder.load(allow_python=True)
    assert spec.id == "game"
    assert sorted(connector.owner for connector in spec.connectors) == [
        "game/code-a-item", "game/code-a-npc", "game/code-a-quest",
        "game/code-b-item", "game/code-b-npc", "game/code-b-quest",
        "game/file-source", "game/lake-codes", "game/lake-logs",
        "game/log-archive", "game/log-login", "game/log-purchase",
    ]  # fmt: skip
    assert sorted(topic.name for topic in spec.find("topics")) == ["code-item", "game-login", "game-purchase"]
    archive = next(connector for connector in spec.connectors if connector.name == "log-archive")
    assert archive.state == "STOPPED"
    assert "connection.user" not in archive.config
    assert archive.config["tasks.max"] == "1"


def test_every_key_is_on_the_page():
    missing = [
        key for key in (*build_file_keys(), *FOLDER_KEYS, *CONNECTOR_KEYS) if not re.search(rf"`[^`]*\b{key}\b", PAGE)
    ]
    assert missing == []
    assert set(re.findall(r"^\| `(\w+)` \| [a-z`]", PAGE, re.MULTILINE)) - {"spec"} == set(build_file_keys())


def test_the_schema_is_up_to_date():
    assert (DOCS / "schema" / "seamark-spec.schema.json").read_text(encoding="utf-8") == render_schema(), (
        "run: seamark schema > docs/schema/seamark-spec.schema.json"
    )


def fits(text):
    schema = build_schema()
    return fits_schema(schema, YAML(typ="safe", pure=True).load(text))


@pytest.mark.parametrize("text", [SKETCH, *(text for name, text in BLOCKS.items() if name.endswith(".yaml"))])
def test_good_files_fit_the_schema(text):
    assert fits(text)


@pytest.mark.parametrize(
    "text",
    [
        "conectors: []",
        "connectors: [{config: {}}]",
        "connectors: [{name: a, tasks.max: 1}]",
        "connectors: [{name: a, config: {k: [1]}}]",
        "connectors: [{name: a, state: lazy}]",
        "each: [{name: a}]",
        "each: [{name: a, for: [b]}]",
        "topics: {a: {partitions: 0}}",
        "topics: {a: {parts: 1}}",
        "- a",
    ],
)
def test_broken_files_do_not_fit_the_schema(text):
    assert not fits(text)
