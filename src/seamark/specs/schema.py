"""The JSON Schema of YAML spec files, for editors: `python -m seamark.specs.schema FILE` writes it.

A spec file may begin with `# yaml-language-server: $schema=PATH-OR-URL`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seamark.specs.keys import (
    COLUMN_KEYS,
    CONNECTOR_KEYS,
    DEAD_LETTER_KEYS,
    EACH_KEYS,
    FILE_KEYS,
    FOLDER_KEYS,
    FROM_KEYS,
    LIMIT_KEYS,
    ON_ERROR_KEYS,
    PIPELINE_KEYS,
    STATES,
    TO_KEYS,
    TOPIC_KEYS,
)

_SLOT = r"\$\{\{ *(each|env)\.[A-Za-z0-9_.-]+ *\}\}"
_TEXT = {"type": ["string", "number", "boolean"]}
_CONFIG_SCHEMA = {
    "type": ["object", "null"],
    "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
}
_NUMBER = {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": _SLOT}]}
_STATE_SCHEMA = {
    "anyOf": [
        {"enum": [*STATES, *(state.upper() for state in STATES)]},
        {"type": "string", "pattern": _SLOT},
    ]
}


def build_schema() -> dict[str, Any]:
    """The schema of a spec file and of a `_defaults.yaml`."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "seamark spec file",
        "description": "Connectors and topics that should be. _defaults.yaml holds what a folder shares.",
        **_build_table(
            {**FILE_KEYS, **FOLDER_KEYS},
            {
                "connectors": _build_connectors(),
                "each": {"type": ["array", "null"], "items": {"$ref": "#/definitions/each"}},
                "topics": {"type": "object", "additionalProperties": {"$ref": "#/definitions/topic"}},
                "pipelines": {"type": "object", "additionalProperties": {"$ref": "#/definitions/pipeline"}},
                "defaults": _CONFIG_SCHEMA,
                "bases": {"type": "object", "additionalProperties": _CONFIG_SCHEMA},
                "cluster": {"type": "string"},
                "spec": {"type": "string"},
            },
        ),
        "definitions": {
            "connector": _build_table(CONNECTOR_KEYS, _build_connector()),
            "each": _build_table(EACH_KEYS, {**_build_connector(), "for": _build_rows()}, required=["name", "for"]),
            "topic": {
                "anyOf": [
                    {"type": "null"},
                    _build_table(TOPIC_KEYS, {"partitions": _NUMBER, "replication": _NUMBER, "config": _CONFIG_SCHEMA}),
                ]
            },
            "pipeline": _build_pipeline(),
        },
    }


def render_schema() -> str:
    """The schema as the text of its file."""
    return json.dumps(build_schema(), indent=2, ensure_ascii=False) + "\n"


def _build_pipeline() -> dict[str, Any]:
    text, truth = {"type": "string"}, {"type": "boolean"}
    column = _build_table(COLUMN_KEYS, {"type": text, "from": text}, required=["type"])
    return _build_table(
        PIPELINE_KEYS,
        {
            "kind": {"enum": ["land"]},
            "from": _build_table(
                FROM_KEYS,
                {
                    "topic": text,
                    "format": {"enum": ["json", "debezium"]},
                    "schemas": truth,
                    "start": {"enum": ["earliest", "latest"]},
                },
                required=["topic"],
            ),
            "to": _build_table(
                TO_KEYS,
                {
                    "database": text,
                    "lake": text,
                    "table": text,
                    "mode": {"enum": ["append", "upsert"]},
                    "key": {"type": "array", "items": text},
                    "order": {"type": "array", "items": text},
                    "tombstones": text,
                    "date": text,
                },
                required=["table"],
            ),
            "columns": {"type": "object", "additionalProperties": {"anyOf": [text, column]}},
            "on_error": {"anyOf": [{"enum": ["stop"]}, _build_on_error()]},
            "every": text,
            "limits": _build_table(LIMIT_KEYS, {"records": _NUMBER}),
        },
        required=["kind", "from", "to", "columns"],
    )


def _build_on_error() -> dict[str, Any]:
    most = {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string"}]}
    letter = _build_table(DEAD_LETTER_KEYS, {"table": {"type": "string"}, "max": most})
    shapes = {"dead_letter": {"anyOf": [{"type": "null"}, letter]}}
    return _build_table(ON_ERROR_KEYS, shapes, required=["dead_letter"])


def _build_connectors() -> dict[str, Any]:
    entry = {"$ref": "#/definitions/connector"}
    return {
        "anyOf": [
            {"type": "array", "items": {"allOf": [entry, {"required": ["name"]}]}},
            {"type": "object", "additionalProperties": entry},
            {"type": "null"},
        ]
    }


def _build_connector() -> dict[str, Any]:
    text = {"type": "string"}
    return {"name": _TEXT, "config": _CONFIG_SCHEMA, "base": text, "cluster": text, "state": _STATE_SCHEMA}


def _build_rows() -> dict[str, Any]:
    return {"type": "array", "items": {"type": "object", "additionalProperties": _TEXT}}


def _build_table(
    described: Mapping[str, str], shapes: Mapping[str, Any], *, required: list[str] | None = None
) -> dict[str, Any]:
    """A table with exactly the keys that the reader knows."""
    table: dict[str, Any] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {key: {"description": text, **shapes[key]} for key, text in described.items()},
    }
    return {**table, "required": required} if required else table


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render_schema(), encoding="utf-8")
