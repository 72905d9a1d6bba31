"""Every key that a YAML spec file may have, with the sentence that editors show. The reader and the schema share it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seamark.core.files import Place
from seamark.specs.nodes import Document, Table, build_spec_error

DEFAULTS_FILE = "_defaults.yaml"
"""The file that holds what a whole folder shares."""

_DEFAULTS = "Config keys of every connector here. A nearer one wins key by key; null takes an inherited key out."
_BASES = "Named sets of config keys. A connector takes one with base:."
_CLUSTER = "The Connect cluster, by its name in the context. Needed only where the context has several."
_NAME = "The connector's name. ${{ env.NAME }} and, within each, ${{ each.NAME }} are filled in."
_CONFIG_HELP = (
    "The connector's config, as Connect takes it. Values keep their spelling; null takes an inherited key out."
)
_STATE_HELP = "How it begins where it is new: running, paused or stopped. A connector that is there keeps its state."
_BASE = "The set of bases: to begin with."

FILE_KEYS: Mapping[str, str] = {
    "connectors": "Connectors: a list of {name, config, …}, or a table of name: {config, …}.",
    "each": "Templates: one connector for each row of for:.",
    "topics": "Topics: name: {partitions, replication, config}.",
    "pipelines": "Jobs of Spark: name: {kind: land, from, to, columns, …}.",
    "defaults": _DEFAULTS,
    "bases": _BASES,
    "cluster": _CLUSTER,
}
FOLDER_KEYS: Mapping[str, str] = {
    "defaults": _DEFAULTS,
    "bases": _BASES,
    "cluster": _CLUSTER,
    "spec": "A name for this folder's spec, the same wherever it is checked out. It counts where -f names this folder.",
}
CONNECTOR_KEYS: Mapping[str, str] = {
    "name": _NAME,
    "config": _CONFIG_HELP,
    "base": _BASE,
    "cluster": _CLUSTER,
    "state": _STATE_HELP,
}
EACH_KEYS: Mapping[str, str] = {
    **CONNECTOR_KEYS,
    "for": "The rows. Each is a table of values, filled in by ${{ each.NAME }}.",
}
TOPIC_KEYS: Mapping[str, str] = {
    "partitions": "How many partitions. Left to the broker where it is not said.",
    "replication": "How many copies of each partition. Left to the broker where it is not said.",
    "config": "The topic's config, with Kafka's own keys.",
}
PIPELINE_KEYS: Mapping[str, str] = {
    "kind": "What it does. land brings a topic into a table, each record once.",
    "from": "The topic, and what its records are.",
    "to": "The database or the lake, and the table.",
    "columns": "The table's columns: name: TYPE, or name: {type, from}.",
    "on_error": "What a record that can't be a row does: stop, or {dead_letter: {table, max}}.",
    "every": "How often a batch is landed, as 10s. Without it, what is there is landed once.",
    "limits": "How much a batch may have.",
}
ON_ERROR_KEYS: Mapping[str, str] = {
    "dead_letter": "Keep such records in a table, with the reason, and continue.",
}
DEAD_LETTER_KEYS: Mapping[str, str] = {
    "table": "The table, in the same database; by default seamark_dead_letters. Not for a lake.",
    "max": "How many the run may keep: N records, or N% of each range. By default 10%.",
}
FROM_KEYS: Mapping[str, str] = {
    "topic": "The topic's name.",
    "format": "What values are: json, or debezium.",
    "schemas": "Whether JSON has Connect's schema around it, as with schemas.enable=true.",
    "start": "Where the first run begins: earliest or latest.",
}
TO_KEYS: Mapping[str, str] = {
    "database": "The database, by its name in the context.",
    "lake": "The lake, by its name in the context, in the place of a database.",
    "table": "The table, or SCHEMA.TABLE; in a lake a folder below it.",
    "mode": "append adds a row for each record; upsert replaces the row of the same key.",
    "key": "The columns of the table's key, for upsert.",
    "order": "For upsert: columns that say which record of a key is newer, or kafka.timestamp, or kafka.offset.",
    "tombstones": "For upsert with order: how long deletes are remembered; by default 7d.",
    "date": "The column by whose date a lake's table is parted.",
}
COLUMN_KEYS: Mapping[str, str] = {
    "type": "PostgreSQL's own type, as numeric(12, 2); in a lake one that Delta has.",
    "from": "Where in the record it is: value.a.b, key, key.id, or kafka.offset, partition, timestamp, topic.",
}
LIMIT_KEYS: Mapping[str, str] = {"records": "How many records a batch has at most, all partitions together."}
STATES = ("running", "paused", "stopped")


def check_keys(table: Table, document: Document, known: Mapping[str, str], *, what: str) -> None:
    """Refuse a key that nobody reads; name the one that was meant, if there is one like it."""
    for name, (key, _) in table.entries.items():
        if name not in known:
            raise _build_unknown(name, document.place(key), known, what=what)


def _build_unknown(name: str, place: Place, known: Mapping[str, str], *, what: str) -> Exception:
    from difflib import get_close_matches  # noqa: PLC0415

    close = get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"it may have: {', '.join(known)}"
    if "." in name and "config" in known:
        hint = f"put {name} below config:"
    return build_spec_error(place, f"{what} has no key {name}", hint=hint)


# A spec file may begin with `# yaml-language-server: $schema=PATH-OR-URL`.

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
