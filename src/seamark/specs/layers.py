"""Merge config keys in layers: folder, file, base, connector. The nearest one wins, key by key."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from seamark.connectors.config import DesiredConnector
from seamark.context.yaml import MappingNode, Node, ScalarNode
from seamark.core.files import FileLocation
from seamark.core.offsets import Offset
from seamark.core.secrets import is_sensitive, mask_value
from seamark.errors import SpecError
from seamark.policy.rules import find_label_fault
from seamark.specs.document import Document, build_spec_error
from seamark.specs.keys import FOLDER_KEYS, LABELS, MANAGE_STATE, STATES, check_keys

if TYPE_CHECKING:
    from seamark.context import Context


def build_connector(
    name: str,
    config: dict[str, str],
    *,
    place: FileLocation,
    cluster: str | None,
    state: str,
    manage_state: bool = False,
    offsets: tuple[Offset, ...] = (),
    labels: Mapping[str, str] | None = None,
) -> DesiredConnector:
    """Build the declared connector. `name` is removed from the config, where it must not differ."""
    named = config.pop("name", name)
    if named != name:
        raise build_spec_error(
            place, f"the connector is {name}, but its config has name {named}", hint="remove name from the config"
        )
    if not config.get("connector.class"):
        raise build_spec_error(
            place, f"connector {name} has no connector.class", hint="set connector.class in its config or in defaults"
        )
    return DesiredConnector(name, config, place, cluster, state, manage_state, offsets, labels or {})


def check_name(name: str, place: FileLocation) -> str:
    """Return the name. Raises if it is empty."""
    if not name:
        raise build_spec_error(place, "the name is empty", hint="set the connector's name")
    return name


def check_state(state: str, place: FileLocation) -> str:
    """Return the state as Connect writes it."""
    if state and state.lower() not in STATES:
        raise build_spec_error(place, "invalid state", hint=f"use one of {', '.join(STATES)}")
    return state.upper()


# Connect's own `${provider:path:key}` is not changed. A literal `${{` is written `$${{`, a literal `$${{` is `$$${{`,
# and so on: one dollar more than in the result.

MARK = "${{"
_MARK = re.compile(r"(?<!\$)(\$+)\{\{")
# With the look-behind, each run of dollars is tried once: a hostile text takes linear time.
_SLOT = re.compile(r"(?<!\$)(\$+)\{\{(?: *(each|env|context|each\(([\w.-]+)\))\.([\w.-]+) *\}\})?")


def escape_marks(text: str) -> str:
    """Escape a text so that filling it returns the text itself."""
    return _MARK.sub(r"$\1{{", text) if MARK in text else text


def has_slots(text: str) -> bool:
    """Return whether filling may change the text."""
    return any(len(found[1]) == 1 for found in _MARK.finditer(text))


class NamedRows:
    """The rows of all entries of `each` with one name, in their order in the file."""

    def __init__(self) -> None:
        self._rows: list[Mapping[str, str]] = []
        self._gathered: dict[str, str] = {}

    def add(self, row: Mapping[str, str]) -> None:
        """Add a row."""
        self._rows.append(row)

    def gather(self, name: str) -> str:
        """Return each value of a field once, in the order of the rows, with commas between them.

        Raises:
            ValueError: a row doesn't have the field, or its value has a comma.
        """
        if name not in self._gathered:
            for number, row in enumerate(self._rows, start=1):
                if name not in row:
                    raise ValueError(f"row {number} has no {name}")
                if "," in row[name]:
                    raise ValueError(f"the value in row {number} has a comma")
            self._gathered[name] = ",".join(dict.fromkeys(row[name] for row in self._rows))
        return self._gathered[name]


def find_no_context() -> None:
    """Stand for files that are loaded without a context."""


@dataclass(frozen=True, slots=True)
class Filler:
    """The available values: the environment, those of the context, and those of one row of `each` if there is one.

    `context` is called by the first placeholder that needs it: not every command that loads files has a context.
    """

    environ: Mapping[str, str] = field(repr=False)
    context: Callable[[], Context | None] = field(default=find_no_context, repr=False)
    row: Mapping[str, str] | None = field(default=None, repr=False)
    named: Mapping[str, NamedRows] | None = field(default=None, repr=False)

    def with_named_rows(self, named: Mapping[str, NamedRows]) -> Filler:
        """Return the same values, with the named rows of a file for `${{ each(NAME).FIELD }}`."""
        return replace(self, named=named)

    def with_row(self, row: Mapping[str, str]) -> Filler:
        """Return the same environment with the values of a row."""
        return replace(self, row=row)

    def fill(self, scalar: ScalarNode, document: Document) -> str:
        """Return the text with every slot filled. Inserted values are not filled again."""
        if MARK not in scalar.text:
            return scalar.text
        parts: list[str] = []
        position = 0
        for number, found in enumerate(_SLOT.finditer(scalar.text)):
            parts.append(scalar.text[position : found.start()])
            position = found.end()
            if len(found[1]) > 1:
                # Escaped: one dollar less, and the text between the braces unchanged.
                parts.append(found[0][1:])
            else:
                parts.append(self._look_up(found, _Spot(scalar, document, number)))
        return "".join([*parts, scalar.text[position:]])

    def _look_up(self, found: re.Match[str], spot: _Spot) -> str:
        kind, rows, name = found[2], found[3], found[4]
        if kind is None:
            raise spot.error(
                "invalid placeholder: expected ${{ each.NAME }}, ${{ each(ROWS).NAME }}, ${{ env.NAME }} or "
                "${{ context.NAME }}",
                hint="write a literal ${{ as $${{; for logic, use a .py file",
            )
        if kind == "env":
            return self._look_up_variable(name, spot)
        if kind == "context":
            return self._look_up_setting(name, spot)
        if rows:
            return self._gather(rows, name, spot)
        if self.row is None:
            raise spot.error(f"each.{name} has a value only within each", hint="move it into an entry of each:")
        if name not in self.row:
            raise spot.error(
                f"each.{name} is not in the row; it has: {', '.join(self.row) or 'nothing'}",
                hint=f"add {name} to every row of for:",
            )
        return self.row[name]

    def _gather(self, rows: str, name: str, spot: _Spot) -> str:
        if self.named is None:
            raise spot.error(
                f"each({rows}) can't be used here",
                hint="use it in a YAML file in a connector's config; named rows themselves can't refer to rows",
            )
        if rows not in self.named:
            known = ", ".join(self.named) or "none"
            raise spot.error(
                f"no rows of this file are named {rows}; named rows: {known}",
                hint=f"add rows: {rows} to an entry of each:",
            )
        problem = ""
        try:
            return self.named[rows].gather(name)
        except ValueError as error:
            problem = str(error)
        raise spot.error(f"each({rows}).{name}: {problem}", hint="change the rows of for:")

    def _look_up_setting(self, name: str, spot: _Spot) -> str:
        context = self.context()
        if context is None:
            raise spot.error(
                f"context.{name} has a value only in a context, and none is chosen",
                hint=f"choose a context with --context NAME, and add {name} to its values",
            )
        if name not in context.spec_values:
            known = ", ".join(context.spec_values) or "nothing"
            raise spot.error(
                f"{name} is not among the values of context {context.name}; they have: {known}",
                hint=context.build_value_hint(name),
            )
        return context.spec_values[name]

    def _look_up_variable(self, name: str, spot: _Spot) -> str:
        value = self.environ.get(name)
        if is_sensitive(name) or (value and mask_value(name, value) != value):
            raise spot.error(
                f"env.{name} appears to be a secret, and would be written into the config in plain text",
                hint=f"write the whole value as secret://env/{name}",
            )
        if value is None:
            raise spot.error(f"the environment variable {name} is not set", hint=f"run export {name}=…")
        return value


@dataclass(frozen=True, slots=True)
class _Spot:
    """The slot that is being filled: its index and its text."""

    scalar: ScalarNode
    document: Document
    number: int

    def error(self, problem: str, *, hint: str) -> SpecError:
        raw = self.document.text[self.scalar.start : self.scalar.end]
        found = [match.start() for match in _SLOT.finditer(raw)]
        inside = found[self.number] if self.number < len(found) else 0
        return self.document.error(self.scalar.start + inside, problem, hint=hint)


def is_true(leaf: ConfigLeaf | None, filler: Filler) -> bool:
    """Return the value of a setting that is true or false; false if it is not set.

    Raises:
        SpecError: It has another value.
    """
    if leaf is None or leaf.scalar.is_null:
        return False
    text = filler.fill(leaf.scalar, leaf.document).lower()
    if text not in ("true", "false"):
        raise leaf.document.error(leaf.scalar, "it must be true or false")
    return text == "true"


def fill_labels(*layers: Layer, filler: Filler, place: FileLocation) -> dict[str, str]:
    """Return the labels: all layers merged and filled. `place` is that of labels that no file contains.

    Raises:
        SpecError: a label is invalid.
    """
    if not any(layers):
        return {}
    labels = fill_layers(*layers, filler=filler)
    key, fault = find_label_fault(labels)
    if fault:
        leaf = next(layer[key] for layer in reversed(layers) if key in layer)
        at = leaf.document.place(leaf.scalar) if leaf.document.text else place
        raise build_spec_error(at, fault, hint="labels are as in Kubernetes, such as team: game")
    return labels


_FILE_REFERENCE = "secret://file/"


class ConfigLeaf(NamedTuple):
    """One config value and its file."""

    scalar: ScalarNode
    document: Document


Layer = dict[str, ConfigLeaf]


@dataclass(frozen=True, slots=True)
class Shared:
    """What the connectors of a folder or a file share."""

    defaults: Layer = field(default_factory=dict)
    bases: Mapping[str, Layer] = field(default_factory=dict)
    cluster: ConfigLeaf | None = None
    manage_state: ConfigLeaf | None = None
    labels: Layer = field(default_factory=dict)
    base_labels: Mapping[str, Layer] = field(default_factory=dict)

    def extend(self, root: MappingNode, document: Document) -> Shared:
        """Return this, overridden by `defaults`, `bases` and `cluster` of a nearer file."""
        defaults, bases, cluster = self.defaults, dict(self.bases), self.cluster
        manage_state, labels, base_labels = self.manage_state, self.labels, dict(self.base_labels)
        if "defaults" in root.entries:
            own, own_labels = _read_shared(root.entries["defaults"][1], document, what="defaults")
            # Besides labels, the one default that isn't a config key.
            manage_state = own.pop(MANAGE_STATE, manage_state)
            defaults, labels = {**defaults, **own}, {**labels, **own_labels}
        for name, (_, node) in _read_tables(root, document).items():
            own, own_labels = _read_shared(node, document, what=f"bases.{name}")
            bases[name] = {**bases.get(name, {}), **own}
            base_labels[name] = {**base_labels.get(name, {}), **own_labels}
        if "cluster" in root.entries:
            cluster = ConfigLeaf(require_text(root.entries["cluster"][1], document, what="cluster"), document)
        return Shared(defaults, bases, cluster, manage_state, labels, base_labels)

    def find_labels(self, base: str) -> Layer:
        """Return the labels that a connector with this base inherits; "" for none."""
        return {**self.labels, **self.base_labels.get(base, {})}


def read_folder(root: Node | None, document: Document, *, above: Shared) -> tuple[Shared, ScalarNode | None]:
    """Read a `_defaults.yaml`, and the spec's ID if it names one."""
    if root is None:
        return above, None
    table = require_table(root, document, what=document.file)
    check_keys(table, document, FOLDER_KEYS, what="a _defaults.yaml")
    named = table.entries.get("spec")
    return above.extend(table, document), named and require_text(named[1], document, what="spec")


def build_layer(node: Node, document: Document, *, what: str) -> Layer:
    """Read a table of config keys. Values must be scalars."""
    if isinstance(node, ScalarNode) and node.is_null:
        return {}
    table = require_table(node, document, what=what)
    layer: Layer = {}
    for name, (key, value) in table.entries.items():
        if not isinstance(value, ScalarNode):
            raise document.error(
                value, f"{name} in {what} is not a string", hint="quote it, because Connect accepts only strings"
            )
        if value.is_null and not value.text:
            raise document.error(
                key, f"{name} in {what} has no value", hint='write "" for an empty string, or null to remove a default'
            )
        if MARK in name:
            raise document.error(
                key, "placeholders are allowed only in values, not in keys", hint="write the key without a placeholder"
            )
        layer[name] = ConfigLeaf(value, document)
    return layer


def _read_shared(node: Node, document: Document, *, what: str) -> tuple[Layer, Layer]:
    """Read shared config keys and labels. A text `labels` is a config key of a plugin."""
    labels = node.entries[LABELS][1] if isinstance(node, MappingNode) and LABELS in node.entries else None
    if not isinstance(node, MappingNode) or not isinstance(labels, MappingNode):
        return build_layer(node, document, what=what), {}
    config = node._replace(entries={key: entry for key, entry in node.entries.items() if key != LABELS})
    return build_layer(config, document, what=what), build_layer(labels, document, what=f"{LABELS} in {what}")


def fill_layers(*layers: Layer, filler: Filler) -> dict[str, str]:
    """Return the config: all layers merged and filled, without the keys that a null removes."""
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
    """Resolve a reference to a file: a relative path is relative to the file that contains it."""
    if not folder or not text.startswith(_FILE_REFERENCE):
        return text
    path = text.removeprefix(_FILE_REFERENCE)
    return text if path.startswith(("/", "~/")) else f"{_FILE_REFERENCE}{folder}/{path}"


def require_table(node: Node, document: Document, *, what: str) -> MappingNode:
    """Return the node as a table. Raises with the name of what should be one."""
    if not isinstance(node, MappingNode):
        raise document.error(node, f"{what} must be a map")
    return node


def require_text(node: Node, document: Document, *, what: str) -> ScalarNode:
    """Return the node as a non-empty text. Raises otherwise."""
    if not isinstance(node, ScalarNode) or not node.text or node.is_null:
        raise document.error(node, f"{what} must be a string")
    return node


def _read_tables(root: MappingNode, document: Document) -> dict[str, tuple[ScalarNode, Node]]:
    if "bases" not in root.entries:
        return {}
    return require_table(root.entries["bases"][1], document, what="bases").entries
