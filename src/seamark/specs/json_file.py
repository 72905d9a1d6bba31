"""A JSON file: what `POST /connectors` takes, a list of such, or one config with its name in it."""

from __future__ import annotations

from collections.abc import Iterator

from seamark.specs.build import build_connector, check_name, check_state
from seamark.specs.definition import Contents, Definition, Maker
from seamark.specs.json_text import parse_json
from seamark.specs.layers import ConfigLeaf, Layer, settle_reference
from seamark.specs.nodes import Document, Items, Node, Scalar, Table

_HOW = 'write {"name": "…", "config": {…}}; to leave the file out, begin its name with _'
_KEYS = frozenset({"name", "config", "initial_state"})
_TOLD = frozenset({"tasks", "type"})


def read_json_file(document: Document, *, cluster: str | None) -> Contents:
    """Every connector of the file. Nothing is filled in, and no defaults count: it is what Connect gets."""
    root = parse_json(document)
    parts = root.nodes if isinstance(root, Items) else (root,)
    return Contents(tuple(_build(part, document, cluster=cluster) for part in parts))


def _build(node: Node, document: Document, *, cluster: str | None) -> Definition:
    if not isinstance(node, Table):
        raise document.error(node, "a connector must be a JSON object", hint=_HOW)
    if "connector.class" in node.entries:
        entry, config, state = node, node, ""
    else:
        entry, config, state = node, _find_config(node, document), _find_state(node, document)
    name = _find_text(entry, "name", document)
    own: Layer = dict(_read_config(config, document))
    connector = build_connector(
        check_name(name.text, document.place(name)),
        {key: settle_reference(leaf.scalar.text, document.folder) for key, leaf in own.items()},
        place=document.place(node),
        cluster=cluster,
        state=state,
    )
    return Definition(connector, Maker.JSON, document, entry, own)


def _find_config(node: Table, document: Document) -> Table:
    for name, (key, _) in node.entries.items():
        if name not in _KEYS:
            told = "Connect tells it and does not take it: take it out" if name in _TOLD else _HOW
            raise document.error(key, f"Connect takes no {name} here", hint=told)
    if "config" not in node.entries:
        raise document.error(node, "this is no connector: it has neither config nor connector.class", hint=_HOW)
    config = node.entries["config"][1]
    if not isinstance(config, Table):
        raise document.error(config, "config must be a JSON object", hint=_HOW)
    return config


def _find_state(node: Table, document: Document) -> str:
    if "initial_state" not in node.entries:
        return ""
    found = _find_text(node, "initial_state", document)
    return check_state(found.text, document.place(found))


def _find_text(node: Table, key: str, document: Document) -> Scalar:
    found = node.entries[key][1] if key in node.entries else None
    if not isinstance(found, Scalar) or found.style != '"':
        raise document.error(found or node, f"{key} must be there, and a text", hint=_HOW)
    return found


def _read_config(config: Table, document: Document) -> Iterator[tuple[str, ConfigLeaf]]:
    for name, (key, value) in config.entries.items():
        if not isinstance(value, Scalar):
            raise document.error(value, f"{name} is not a single value", hint="Connect takes texts: put it in quotes")
        if value.is_null:
            raise document.error(key, f"{name} is null", hint='leave the key out, or write ""')
        yield name, ConfigLeaf(value, document)
