"""One layer of settings: what a single file, the environment or the flags say."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from pathlib import Path

from seamark.context.files import build_file_error, read_limited
from seamark.context.schema import (
    CONNECT_KEYS,
    CONTEXT_KEYS,
    PACE,
    PACE_KEYS,
    PART_KEYS,
    POLICY_KEYS,
    ROLE_KEYS,
    ROOT_KEYS,
    SECTION_KEYS,
    SettingKind,
    check_kafka_key,
    check_key,
    check_name,
)
from seamark.context.yaml import MappingNode, Node, ScalarNode, SequenceNode, YamlDocument, YamlRules, parse_yaml
from seamark.core.files import FileLocation
from seamark.errors import ConfigurationError, UntrustedSettingError


class Trust(IntEnum):
    """How far a place is trusted. Credentials of a place go only to addresses of the same or a higher trust."""

    PROJECT = 0
    ENVIRONMENT = 1
    USER = 2
    SYSTEM = 3

    @property
    def words(self) -> str:
        """The place in messages."""
        return "environment" if self is Trust.ENVIRONMENT else f"{self.name.lower()} file"


class OriginKind(StrEnum):
    """The kinds of place a value can come from, strongest first."""

    OVERRIDE = "override"
    ENVIRONMENT = "environment"
    FILE = "file"
    WORKER = "worker"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Origin:
    """One place: a line of a file, an environment variable, a flag, or the default.

    `place` is the name shown to people; `path` is the whole path where the place is a file.
    Lines and columns start at 1; 0 means that there is none. A worker's file has the trust of the place that names it.
    """

    kind: OriginKind
    place: str
    line: int = 0
    column: int = 0
    path: Path | None = field(default=None, repr=False)
    trust: Trust = field(default=Trust.USER, repr=False)

    def __str__(self) -> str:
        """`seamark.yaml:7`, a variable's name, or `default`."""
        return f"{self.place}:{self.line}" if self.line else self.place

    @property
    def exact(self) -> str:
        """The same with the column, as errors and editors want it."""
        return f"{self}:{self.column}" if self.column else str(self)

    @property
    def is_file(self) -> bool:
        """Whether the value is written in a file."""
        return self.path is not None


DEFAULT = Origin(OriginKind.DEFAULT, "default", trust=Trust.SYSTEM)


def build_place(path: Path, *, cwd: Path, home: Path | None = None) -> str:
    """The shortest honest name of a file: below `cwd`, above it, below `~`, else the whole path."""
    if path.is_relative_to(cwd):
        return str(path.relative_to(cwd))
    # A file of a parent folder reads best as ../seamark.yaml; anything further is clearer whole.
    if path.parent != path.parent.parent and cwd.is_relative_to(path.parent):
        return os.path.relpath(path, cwd)
    if home is not None and path.is_relative_to(home):
        return f"~/{path.relative_to(home)}"
    return str(path)


KeyPath = tuple[str, ...]
POLICY = "policy"
ROLES = "roles"
LABELS = "labels"
VALUES = "values"
COMMANDS = "commands"
MAX_BYTES = 10 << 20
MAX_ALIASES = 100
_RULES = YamlRules("a contexts file", MAX_BYTES, counts_characters=True, max_aliases=MAX_ALIASES)


@dataclass(frozen=True, slots=True)
class Leaf:
    """One value as it stands in one place. `folder` is where a relative path in it starts."""

    texts: tuple[str, ...] = field(repr=False)
    origin: Origin
    folder: Path

    @property
    def text(self) -> str:
        """The value as one text; the items of a list have commas between them."""
        return ",".join(self.texts)


@dataclass(frozen=True, slots=True)
class Layer:
    """The values of one place by their path, and where each context and cluster is named.

    A `null` is as good as no line at all, so it is not in `values`.
    """

    place: str
    values: Mapping[KeyPath, Leaf] = field(default_factory=dict)
    sections: Mapping[KeyPath, Origin] = field(default_factory=dict)


def show_key(path: KeyPath) -> str:
    """`connect.game.urls` for the path below a context."""
    return ".".join(path[2:] if path[:1] == ("contexts",) else path)


def read_file_layer(path: Path, *, place: str, trust: Trust = Trust.USER) -> Layer:
    """Return the layer of a contexts file."""
    data = read_limited(path, limit=MAX_BYTES, place=place)
    text = None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
    if text is None:
        where = FileLocation(place, line, 1)
        raise build_file_error(ConfigurationError, where, "it is not UTF-8", hint="save the file as UTF-8")
    document = YamlDocument(place, text, rules=_RULES)
    return _FileReader(path, document, trust).read(parse_yaml(document))


class _FileReader:
    """Walks the tree of one file along the schema."""

    def __init__(self, path: Path, document: YamlDocument, trust: Trust) -> None:
        self._path = path
        self._document = document
        self._place = document.file
        self._trust = trust
        self._values: dict[KeyPath, Leaf] = {}
        self._sections: dict[KeyPath, Origin] = {}

    def read(self, root: Node | None) -> Layer:
        for key, node in self._entries(root, ()):
            check_key(key.text, ROOT_KEYS, path="", where=self._at(key).exact)
            if key.text == "current":
                self._take((key.text,), node)
            elif key.text == COMMANDS:
                self._read_commands(node)
            else:
                self._read_contexts(node)
        return Layer(self._place, self._values, self._sections)

    def _read_commands(self, node: Node) -> None:
        """Read the commands that `secret://command/NAME` runs. A repository must not decide what runs here."""
        if self._trust <= Trust.PROJECT:
            raise UntrustedSettingError(
                "a project file can't define commands",
                cause=self._at(node).exact,
                hint="define them in your own contexts file; if you trust this whole file as your own, "
                f"set SEAMARK_CONFIG={self._place}",
                context={"setting": COMMANDS, "origin": str(self._at(node))},
            )
        for name, argv in self._entries(node, (COMMANDS,)):
            check_name(name.text, what="command", where=self._at(name).exact)
            path = (COMMANDS, name.text)
            self._take(path, argv, is_list=True)
            if not self._values.get(path, Leaf((), self._at(argv), self._path.parent)).texts:
                raise self._error(argv, f"{'.'.join(path)} must be a program and its arguments")

    def _read_contexts(self, node: Node) -> None:
        for name, context in self._entries(node, ("contexts",)):
            check_name(name.text, what="context", where=self._at(name).exact)
            path = ("contexts", name.text)
            self._sections[path] = self._at(name)
            for key, part in self._entries(context, path):
                check_key(key.text, (*SECTION_KEYS, *CONTEXT_KEYS), path=_dotted(path), where=self._at(key).exact)
                if key.text == "kafka":
                    self._read_kafka((*path, "kafka"), part)
                elif key.text == "connect":
                    self._read_connect((*path, "connect"), part)
                elif key.text in PART_KEYS:
                    self._read_parts((*path, key.text), part)
                elif key.text == POLICY:
                    self._read_policy((*path, POLICY), part)
                elif key.text == ROLES:
                    self._read_roles((*path, ROLES), part)
                elif key.text == PACE:
                    self._read_pace((*path, PACE), part)
                elif key.text == VALUES:
                    self._read_values((*path, VALUES), part)
                else:
                    self._take((*path, key.text), part)

    def _read_kafka(self, path: KeyPath, node: Node) -> None:
        for key, value in self._entries(node, path):
            check_kafka_key(key.text, path=_dotted(path), where=self._at(key).exact)
            self._take((*path, key.text), value)

    def _read_connect(self, path: KeyPath, node: Node) -> None:
        for name, cluster in self._entries(node, path):
            check_name(name.text, what="Connect cluster", where=self._at(name).exact)
            self._sections[(*path, name.text)] = self._at(name)
            below = (*path, name.text)
            for key, value in self._entries(cluster, below):
                check_key(key.text, (*CONNECT_KEYS, POLICY), path=_dotted(below), where=self._at(key).exact)
                if key.text == POLICY:
                    self._read_policy((*below, POLICY), value)
                else:
                    self._take((*below, key.text), value, is_list=CONNECT_KEYS[key.text] is SettingKind.URLS)

    def _read_parts(self, path: KeyPath, node: Node) -> None:
        what, keys = PART_KEYS[path[-1]]
        for name, part in self._entries(node, path):
            check_name(name.text, what=what, where=self._at(name).exact)
            below = (*path, name.text)
            self._sections[below] = self._at(name)
            for key, value in self._entries(part, below):
                check_key(key.text, keys, path=_dotted(below), where=self._at(key).exact)
                self._take((*below, key.text), value)

    def _read_policy(self, path: KeyPath, node: Node) -> None:
        for key, value in self._entries(node, path):
            check_key(key.text, POLICY_KEYS, path=_dotted(path), where=self._at(key).exact)
            self._take((*path, key.text), value, is_list=POLICY_KEYS[key.text] is SettingKind.PATTERNS)

    def _read_roles(self, path: KeyPath, node: Node) -> None:
        if isinstance(node, MappingNode):
            # An empty mapping states that there are no roles, which a less trusted file can't change.
            self._sections[path] = self._at(node)
        for name, role in self._entries(node, path):
            check_name(name.text, what="role", where=self._at(name).exact)
            below = (*path, name.text)
            self._sections[below] = self._at(name)
            for key, value in self._entries(role, below):
                check_key(key.text, ROLE_KEYS, path=_dotted(below), where=self._at(key).exact)
                if key.text == LABELS:
                    self._take_labels((*below, key.text), value)
                else:
                    self._take((*below, key.text), value, is_list=True)

    def _read_pace(self, path: KeyPath, node: Node) -> None:
        for key, value in self._entries(node, path):
            check_key(key.text, PACE_KEYS, path=_dotted(path), where=self._at(key).exact)
            self._take((*path, key.text), value)

    def _read_values(self, path: KeyPath, node: Node) -> None:
        for name, value in self._entries(node, path):
            check_name(name.text, what="value", where=self._at(name).exact)
            self._take((*path, name.text), value, is_list=True)

    def _entries(self, node: Node | None, path: KeyPath) -> Iterator[tuple[ScalarNode, Node]]:
        if node is None or (isinstance(node, ScalarNode) and node.is_null):
            return iter(())
        if not isinstance(node, MappingNode):
            raise self._error(node, f"{'.'.join(path) or 'the file'} must have keys below it")
        return iter(node.entries.values())

    def _take(self, path: KeyPath, node: Node, *, is_list: bool = False) -> None:
        nodes: tuple[Node, ...] = node.nodes if is_list and isinstance(node, SequenceNode) else (node,)
        texts = []
        for part in nodes:
            if not isinstance(part, ScalarNode):
                what = "a text, or a list of texts" if is_list else "a single text"
                raise self._error(part, f"{'.'.join(path)} must be {what}")
            if not part.is_null:
                texts.append(part.text)
        # An empty list of a policy or a role allows nothing, which differs from an absent key.
        if texts or (is_list and path[-1] != "urls" and isinstance(node, SequenceNode)):
            self._values[path] = Leaf(tuple(texts), self._at(node), self._path.parent)

    def _take_labels(self, path: KeyPath, node: Node) -> None:
        """Store the labels of a role as KEY=VALUE. Without any, the role would be limited to nothing, or not at all."""
        if not isinstance(node, MappingNode) or not node.entries:
            raise self._error(node, f"{'.'.join(path)} must have labels below it, as in team: game")
        texts = []
        for key, value in node.entries.values():
            if not isinstance(value, ScalarNode) or value.is_null:
                raise self._error(value, f"{'.'.join(path)}.{key.text} must be a single text")
            texts.append(f"{key.text}={value.text}")
        self._values[path] = Leaf(tuple(texts), self._at(node), self._path.parent)

    def _at(self, node: Node) -> Origin:
        place = self._document.place(node)
        return Origin(OriginKind.FILE, self._place, place.line, place.column, path=self._path, trust=self._trust)

    def _error(self, node: Node, problem: str) -> Exception:
        return self._document.error(node, problem)


def _dotted(path: KeyPath) -> str:
    return ".".join(path) + "."
