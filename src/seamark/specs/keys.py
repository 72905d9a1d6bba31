"""Every key that a YAML spec file may have, with the sentence that editors show. The reader and the schema share it."""

from __future__ import annotations

from collections.abc import Mapping

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
