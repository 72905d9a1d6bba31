"""Every key of a YAML spec file, with the description that editors show. The reader and the schema share it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from seamark.changes.spec_kind import (
    CONFIG_SCHEMA,
    SLOT_PATTERN,
    SectionKind,
    SpecKind,
    build_table_schema,
    list_spec_kinds,
)
from seamark.context.yaml import MappingNode
from seamark.core.files import FileLocation
from seamark.report.data import render_json
from seamark.specs.document import Document, build_spec_error

if TYPE_CHECKING:
    from seamark.connect.model import ConfigKey
    from seamark.connect.plugins import PluginDefinition

DEFAULTS_FILE = "_defaults.yaml"
"""The file with the settings that a whole folder shares."""

_DEFAULTS = "Config keys of every connector here. The nearest value of a key is used; null removes an inherited key."
_BASES = "Named sets of config keys. A connector selects one with base:."
_CLUSTER = "The Connect cluster, by its name in the context. Required only if the context has several."
_NAME = "The connector's name. ${{ env.NAME }}, ${{ context.NAME }} and, within each, ${{ each.NAME }} are substituted."
_CONFIG_HELP = "The connector's config, as in Connect. Values are sent unchanged; null removes an inherited key."
_STATE_HELP = "State of a new connector: running (default), paused or stopped. See manage_state for existing ones."
_MANAGE_STATE_HELP = "Whether an existing connector gets the declared state too. Also a key of defaults:."
MANAGE_STATE = "manage_state"
_OFFSETS_HELP = "Where a new connector starts: a list of {partition, offset}. No effect on an existing one."
OFFSETS = "offsets"
LABELS = "labels"
_LABELS_HELP = (
    "Labels for selections and roles, kept in the journal, not in Connect. Also a key of defaults: and bases:."
)
OFFSET_KEYS: Mapping[str, str] = {
    "partition": "The source partition, or kafka_topic and kafka_partition of a sink.",
    "offset": "The source offset, or kafka_offset of a sink: the next record to read.",
}
_BASE = "The set of bases: that the config starts with."

FOLDER_KEYS: Mapping[str, str] = {
    "defaults": _DEFAULTS,
    "bases": _BASES,
    "cluster": _CLUSTER,
    "spec": "A name of this folder's spec, the same in every checkout. Used if -f is this folder.",
}
CONNECTOR_KEYS: Mapping[str, str] = {
    "name": _NAME,
    "config": _CONFIG_HELP,
    "base": _BASE,
    "cluster": _CLUSTER,
    "state": _STATE_HELP,
    MANAGE_STATE: _MANAGE_STATE_HELP,
    OFFSETS: _OFFSETS_HELP,
    LABELS: _LABELS_HELP,
}
_ROWS_KEYS: Mapping[str, str] = {
    "for": "The rows. Each is a table of values for ${{ each.NAME }}.",
    "rows": "A name of the rows. In this file, ${{ each(NAME).FIELD }} is the list of FIELD of all rows with the name.",
}
EACH_KEYS: Mapping[str, str] = {**CONNECTOR_KEYS, **_ROWS_KEYS}
_TEMPLATE_KEYS: Mapping[str, str] = {
    **_ROWS_KEYS,
    "config": "What the section of its kind has below a name. ${{ each.NAME }} is replaced by the value of the row.",
}
STATES = ("running", "paused", "stopped")


def list_kinds() -> tuple[SpecKind[Any], ...]:
    """Return every kind of resource in spec files, in the order of their phases.

    The modules of the kinds are imported here, which registers them: a spec program, which runs in its own process,
    doesn't need them.
    """
    import seamark.connectors.spec  # noqa: PLC0415
    import seamark.pipelines.spec  # noqa: PLC0415
    import seamark.topics.spec  # noqa: F401, PLC0415

    return list_spec_kinds()


def list_sections() -> tuple[SectionKind[Any], ...]:
    """Return the kinds that read their sections themselves, in the order of their phases."""
    return tuple(kind for kind in list_kinds() if isinstance(kind, SectionKind))


def list_templates() -> dict[str, SectionKind[Any]]:
    """Return the kinds besides connectors that `each:` can declare, by the key that has their names."""
    return {kind.noun: kind for kind in list_sections() if kind.has_templates}


def build_template_keys(kind: SectionKind[Any]) -> dict[str, str]:
    """Return the keys of an entry of `each:` for this kind."""
    return {kind.noun: f"The name of each {kind.noun}, with ${{{{ each.NAME }}}}.", **_TEMPLATE_KEYS}


def build_file_keys() -> dict[str, str]:
    """Return the keys of a spec file: connectors, the sections of all other kinds, and what connectors share."""
    return {
        "connectors": "Connectors: a list of {name, config, …}, or a table of name: {config, …}.",
        "each": "Templates: one connector, or one pipeline, for each row of for:.",
        **{kind.section: kind.summary for kind in list_sections()},
        "defaults": _DEFAULTS,
        "bases": _BASES,
        "cluster": _CLUSTER,
    }


def check_keys(table: MappingNode, document: Document, known: Mapping[str, str], *, what: str) -> None:
    """Raise for an unknown key; suggest a similar one, if there is one."""
    for name, (key, _) in table.entries.items():
        check_names([name], document.place(key), known, what=what)


def check_names(names: Iterable[str], place: FileLocation, known: Mapping[str, str], *, what: str) -> None:
    """Raise for an unknown name; suggest a similar one, if there is one."""
    for name in names:
        if name not in known:
            raise _build_unknown(name, place, known, what=what)


def _build_unknown(name: str, place: FileLocation, known: Mapping[str, str], *, what: str) -> Exception:
    from difflib import get_close_matches  # noqa: PLC0415

    close = get_close_matches(name, known, n=1)
    hint = f"use {close[0]}" if close else f"use one of {', '.join(known)}"
    if "." in name and "config" in known:
        hint = f"move {name} below config:"
    return build_spec_error(place, f"{what} has no key {name}", hint=hint)


# A spec file may begin with `# yaml-language-server: $schema=PATH-OR-URL`.

_TEXT = {"type": ["string", "number", "boolean"]}
_LABELS_SCHEMA = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean", "null"]}}
_STATE_SCHEMA = {
    "anyOf": [
        {"enum": [*STATES, *(state.upper() for state in STATES)]},
        {"type": "string", "pattern": SLOT_PATTERN},
    ]
}


def build_schema(plugins: Sequence[PluginDefinition] = ()) -> dict[str, Any]:
    """Build the schema of a spec file and of a `_defaults.yaml`.

    `plugins` add the keys of each connector class to configs that set `connector.class`. Other keys stay allowed:
    those of transformations and client overrides have prefixes that no plugin defines.
    """
    kinds = list_sections()
    templates = {f"each-{noun}": kind for noun, kind in list_templates().items()}
    config = {"$ref": "#/definitions/config"} if plugins else CONFIG_SCHEMA
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "seamark spec file",
        "description": "Desired connectors and topics. _defaults.yaml has the settings that a folder shares.",
        **build_table_schema(
            {**build_file_keys(), **FOLDER_KEYS},
            {
                "connectors": _build_connectors(),
                "each": {
                    "type": ["array", "null"],
                    "items": {"anyOf": [{"$ref": f"#/definitions/{name}"} for name in ("each", *templates)]},
                },
                **{
                    kind.section: {"type": "object", "additionalProperties": {"$ref": f"#/definitions/{kind.noun}"}}
                    for kind in kinds
                },
                "defaults": _build_shared(config),
                "bases": {"type": "object", "additionalProperties": _build_shared(config)},
                "cluster": {"type": "string"},
                "spec": {"type": "string"},
            },
        ),
        "definitions": {
            "connector": build_table_schema(CONNECTOR_KEYS, _build_connector(config)),
            "each": build_table_schema(
                EACH_KEYS,
                {**_build_connector(config), "for": _build_rows(), "rows": {"type": "string"}},
                required=["name", "for"],
            ),
            **{
                name: build_table_schema(
                    build_template_keys(kind),
                    {kind.noun: _TEXT, "for": _build_rows(), "rows": {"type": "string"}, "config": {"type": "object"}},
                    required=[kind.noun, "for", "config"],
                )
                for name, kind in templates.items()
            },
            **{kind.noun: kind.build_schema() for kind in kinds},
            **({"config": _build_config(plugins)} if plugins else {}),
        },
    }


def render_schema(plugins: Sequence[PluginDefinition] = ()) -> str:
    """Return the schema as the text of its file."""
    return render_json(build_schema(plugins))


def _build_config(plugins: Sequence[PluginDefinition]) -> dict[str, Any]:
    classes = {"description": "The plugin's class.", "examples": [plugin.class_name for plugin in plugins]}
    return {
        **CONFIG_SCHEMA,
        "properties": {"connector.class": classes},
        "allOf": [
            {
                "if": {
                    "required": ["connector.class"],
                    "properties": {"connector.class": {"enum": list(dict.fromkeys(plugin.names))}},
                },
                "then": {"properties": {key.name: _build_key(key) for key in plugin.keys if key.name != "name"}},
            }
            for plugin in plugins
        ],
    }


def _build_key(key: ConfigKey) -> dict[str, Any]:
    # No type: every value may be a reference, or have `${{ … }}` in it. A default of a PASSWORD would be a secret.
    facts = [key.type, "required" if key.is_required else "", key.importance and f"importance {key.importance.lower()}"]
    said = " ".join(key.documentation.split())
    described = {"description": f"{said} ({', '.join(filter(None, facts))})".lstrip()}
    return described if key.default is None or key.is_password else {**described, "default": key.default}


def _build_shared(config: Mapping[str, Any]) -> dict[str, Any]:
    """Build the schema of config keys that connectors share, which may contain labels."""
    shared = CONFIG_SCHEMA if "$ref" in config else config
    return {**shared, "properties": {LABELS: {"description": _LABELS_HELP, **_LABELS_SCHEMA}}}


def _build_connectors() -> dict[str, Any]:
    entry = {"$ref": "#/definitions/connector"}
    return {
        "anyOf": [
            {"type": "array", "items": {"allOf": [entry, {"required": ["name"]}]}},
            {"type": "object", "additionalProperties": entry},
            {"type": "null"},
        ]
    }


def _build_connector(config: Mapping[str, Any]) -> dict[str, Any]:
    text = {"type": "string"}
    return {
        "name": _TEXT,
        "config": config,
        "base": text,
        "cluster": text,
        "state": _STATE_SCHEMA,
        MANAGE_STATE: {"anyOf": [{"type": "boolean"}, {"type": "string", "pattern": SLOT_PATTERN}]},
        OFFSETS: {
            "type": "array",
            "items": build_table_schema(
                OFFSET_KEYS, {key: {"type": "object"} for key in OFFSET_KEYS}, required=[*OFFSET_KEYS]
            ),
        },
        LABELS: _LABELS_SCHEMA,
    }


def _build_rows() -> dict[str, Any]:
    return {"type": "array", "items": {"type": "object", "additionalProperties": _TEXT}}
