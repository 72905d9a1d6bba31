"""Config keys in layers: folder, file, base, connector. The nearest one wins, key by key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from seamark.specs.fill import MARK, Filler
from seamark.specs.keys import FOLDER_KEYS, check_keys
from seamark.specs.nodes import Document, Node, Scalar, Table

_FILE_REFERENCE = "secret://file/"


class ConfigLeaf(NamedTuple):
    """One config value and the file it stands in."""

    scalar: Scalar
    document: Document


Layer = dict[str, ConfigLeaf]


@dataclass(frozen=True, slots=True)
class Shared:
    """What the connectors of a folder or a file have in common."""

    defaults: Layer = field(default_factory=dict)
    bases: Mapping[str, Layer] = field(default_factory=dict)
    cluster: ConfigLeaf | None = None

    def extend(self, root: Table, document: Document) -> Shared:
        """This, and below it what `defaults`, `bases` and `cluster` of a nearer file say."""
        defaults, bases, cluster = self.defaults, dict(self.bases), self.cluster
        if "defaults" in root.entries:
            defaults = {**defaults, **build_layer(root.entries["defaults"][1], document, what="defaults")}
        for name, (_, node) in _read_tables(root, document).items():
            bases[name] = {**bases.get(name, {}), **build_layer(node, document, what=f"bases.{name}")}
        if "cluster" in root.entries:
            cluster = ConfigLeaf(require_text(root.entries["cluster"][1], document, what="cluster"), document)
        return Shared(defaults, bases, cluster)


def read_folder(root: Node | None, document: Document, *, above: Shared) -> tuple[Shared, Scalar | None]:
    """What a `_defaults.yaml` says, and the spec's id if it names one."""
    if root is None:
        return above, None
    table = require_table(root, document, what=document.file)
    check_keys(table, document, FOLDER_KEYS, what="a _defaults.yaml")
    named = table.entries.get("spec")
    return above.extend(table, document), named and require_text(named[1], document, what="spec")


def build_layer(node: Node, document: Document, *, what: str) -> Layer:
    """A table of config keys. Values must be single texts."""
    if isinstance(node, Scalar) and node.is_null:
        return {}
    table = require_table(node, document, what=what)
    layer: Layer = {}
    for name, (key, value) in table.entries.items():
        if not isinstance(value, Scalar):
            raise document.error(
                value, f"{name} in {what} is not a single text", hint="Connect takes texts only; quote it"
            )
        if value.is_null and not value.text:
            raise document.error(
                key, f"{name} in {what} has no value", hint='write "" for an empty text, or null to take out a default'
            )
        if MARK in name:
            raise document.error(key, "keys are not filled in, only values", hint="write the key as it is")
        layer[name] = ConfigLeaf(value, document)
    return layer


def fill_layers(*layers: Layer, filler: Filler) -> dict[str, str]:
    """The config: all layers over each other, filled in, without what a null took out."""
    merged: Layer = {}
    for layer in layers:
        merged.update(layer)
    config: dict[str, str] = {}
    for key, leaf in merged.items():
        scalar, document = leaf
        if scalar.is_null:
            continue
        text = scalar.text
        if MARK in text:
            text = filler.fill(scalar, document)
        config[key] = settle_reference(text, document.folder)
    return config


def settle_reference(text: str, folder: str) -> str:
    """A reference to a file made whole: a relative path starts at the file it stands in."""
    if not folder or not text.startswith(_FILE_REFERENCE):
        return text
    path = text.removeprefix(_FILE_REFERENCE)
    return text if path.startswith(("/", "~/")) else f"{_FILE_REFERENCE}{folder}/{path}"


def require_table(node: Node, document: Document, *, what: str) -> Table:
    """The node as a table, or an error that says what should be one."""
    if not isinstance(node, Table):
        raise document.error(node, f"{what} must be a table of keys and values")
    return node


def require_text(node: Node, document: Document, *, what: str) -> Scalar:
    """The node as a text that is not empty, or an error."""
    if not isinstance(node, Scalar) or not node.text or node.is_null:
        raise document.error(node, f"{what} must be a text")
    return node


def _read_tables(root: Table, document: Document) -> dict[str, tuple[Scalar, Node]]:
    if "bases" not in root.entries:
        return {}
    return require_table(root.entries["bases"][1], document, what="bases").entries
