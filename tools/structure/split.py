"""Take definitions out of their modules, with the imports that they need, and put them into others."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tools.structure.imports import PythonFile, build_statements, find_span
from tools.structure.names import Imported, Names
from tools.structure.placement import GONE, Place, Placement
from tools.structure.tree import ROOT, Definition, Module, Tree, find_defined, find_source


class SplitError(Exception):
    """A definition that can't be taken out of its module, or not be put into another."""


@dataclass(frozen=True, slots=True)
class Segment:
    """The lines of one or more definitions that leave a module."""

    text: str
    names: tuple[str, ...]
    statement: ast.stmt
    source: str
    """The old name of its module."""


@dataclass(frozen=True, slots=True)
class Bound:
    """What a module-level import binds."""

    imported: Imported
    is_typing: bool
    is_module: bool = False
    """`import a.b as c` instead of `from a import b as c`."""


@dataclass(slots=True)
class Needs:
    """The imports that a module gets with what is put into it."""

    loaded: dict[str, Bound] = field(default_factory=dict)

    def add(self, name: str, bound: Bound) -> None:
        """Keep an import; one that is needed at run time wins over one for annotations."""
        known = self.loaded.get(name)
        if known is not None and known.imported != bound.imported:
            raise SplitError(f"{name} would stand for {known.imported} and {bound.imported}")
        if known is None or known.is_typing:
            self.loaded[name] = bound


def follow_helpers(tree: Tree, placement: Placement) -> Placement:
    """Return the placement with the private helpers that only definitions of one target use: they go with them."""
    splits = dict(placement.splits)
    users: dict[Definition, set[Definition]] = defaultdict(set)
    for use in tree.find_uses():
        users[use.used].add(use.user)
    while True:
        found = dict(_find_helpers(tree, users, replace(placement, splits=splits)))
        if not found:
            return replace(placement, splits=splits)
        splits |= found


def _find_helpers(
    tree: Tree, users: Mapping[Definition, set[Definition]], placement: Placement
) -> Iterator[tuple[Definition, Place]]:
    for module in {definition.module for definition in placement.splits}:
        own = placement.modules[module].moved_to
        for name in tree.modules[module].definitions:
            definition = Definition(module, name)
            if not name.startswith("_") or name.startswith("__") or definition in placement.splits:
                continue
            places = {placement.find(user).moved_to for user in users[definition] if user != definition}
            if len(places) == 1 and own not in places:
                yield definition, placement.find(next(iter(users[definition])))


def take_out(module: Module, text: str, names: Names) -> tuple[str, list[Segment]]:
    """Return the text without the definitions that leave a module, and those."""
    own = names.placement.modules[module.name].moved_to
    lines = text.splitlines(keepends=True)
    gone: set[int] = set()
    segments = []
    body = list(module.body)
    for number, statement in enumerate(body):
        defined = tuple(find_defined(statement))
        places = {names.placement.find(Definition(module.name, name)).moved_to for name in defined} - {GONE}
        if not places - {own}:
            continue
        if len(places) > 1:
            raise SplitError(f"{module.name}: {', '.join(defined)} go to {', '.join(sorted(places))}")
        start, end = _find_lines(lines, body, number)
        gone.update(range(start, end))
        segments.append(Segment("".join(lines[start:end]), defined, statement, module.name))
    missing = {
        name
        for (source, name), place in names.placement.splits.items()
        if source == module.name and place.moved_to != own
    } - {name for segment in segments for name in segment.names}
    if missing:
        raise SplitError(f"{module.name}: {', '.join(sorted(missing))} is defined in a condition")
    left = "".join(line for number, line in enumerate(lines) if number not in gone)
    return _cut_exports(left, {name for segment in segments for name in segment.names}), segments


def _cut_exports(text: str, gone: set[str]) -> str:
    """Take names out of `__all__`."""
    for statement in ast.parse(text).body:
        if "__all__" in find_defined(statement):
            start, end = find_span(text, statement)
            names = rf'"(?:{"|".join(map(re.escape, sorted(gone))) or "$^"})"'
            return text[:start] + re.sub(rf",\s*{names}|{names},?\s*", "", text[start:end]) + text[end:]
    return text


def _find_lines(lines: Sequence[str], body: Sequence[ast.stmt], number: int) -> tuple[int, int]:
    """Return the lines of a statement with its decorators, the comment above it, and the docstring of a constant."""
    statement = body[number]
    decorators = getattr(statement, "decorator_list", [])
    start = min([statement.lineno, *(one.lineno for one in decorators)]) - 1
    while start and lines[start - 1].startswith("#"):
        start -= 1
    end = statement.end_lineno or statement.lineno
    if isinstance(statement, ast.Assign | ast.AnnAssign) and number + 1 < len(body):
        match body[number + 1]:
            case ast.Expr(value=ast.Constant(value=str()), end_lineno=int(last)):
                end = last
    return start, end


def put_in(text: str, target: str, segments: Sequence[Segment], names: Names) -> str:
    """Return the text of a module with definitions from others, and with the imports that those need."""
    needs = Needs()
    for segment in segments:
        for name, bound in find_needs(segment, target, names):
            needs.add(name, bound)
    rewritten = [
        PythonFile(segment.text, target, names.tree.modules[segment.source]).rewrite(names) for segment in segments
    ]
    moved = {name for segment in segments for name in segment.names}
    text = _insert(text, "\n\n".join(one.strip("\n") for one in rewritten), before=moved)
    return add_imports(text, needs, names, target=target)


def find_needs(segment: Segment, target: str, names: Names) -> Iterator[tuple[str, Bound]]:
    """Yield the imports that definitions need in a module."""
    module = names.tree.modules[segment.source]
    table = read_imports(module, names, importing=target)
    for name in sorted(_find_used(segment.statement)):
        if name in table:
            if table[name].imported.source != target:
                yield name, table[name]
        elif name in module.definitions:
            home = names.find_definition(Definition(module.name, name))
            if home != target:
                yield name, Bound(Imported(home, name), is_typing=False)


def find_left_behind(module: Module, text: str, names: Names, *, importing: str) -> Needs:
    """Return the imports of what has left a module and what stays still uses."""
    needs = Needs()
    used = {name for statement in ast.parse(text).body for name in _find_used(statement)}
    for name in sorted(used & module.definitions.keys()):
        home = names.find_definition(Definition(module.name, name))
        if home != importing:
            needs.add(name, Bound(Imported(home, name), is_typing=False))
    return needs


def read_imports(module: Module, names: Names, *, importing: str) -> dict[str, Bound]:
    """Return what the module-level imports of a module bind, as they are after the move in another module."""
    table: dict[str, Bound] = {}
    for statement, is_typing in _list_statements(module.body):
        if isinstance(statement, ast.ImportFrom):
            source = find_source(statement, module)
            for alias in statement.names:
                bound = alias.asname or alias.name
                found = None if source is None else names.find_imported(source, alias.name, importing=importing)
                table[bound] = Bound(found or Imported(statement.module or "", alias.name), is_typing)
        elif isinstance(statement, ast.Import):
            for alias in statement.names:
                is_own = alias.name.startswith(f"{ROOT}.")
                name = names.find_dotted(alias.name.removeprefix(f"{ROOT}.")) if is_own else alias.name
                bound = alias.asname or name.partition(".")[0]
                table[bound] = Bound(Imported(name, ""), is_typing, is_module=True)
    return table


def _list_statements(body: Iterable[ast.stmt], *, is_typing: bool = False) -> Iterator[tuple[ast.stmt, bool]]:
    for statement in body:
        if isinstance(statement, ast.If):
            yield from _list_statements(statement.body, is_typing=is_typing or _is_typing(statement))
        else:
            yield statement, is_typing


def _find_used(node: ast.AST) -> set[str]:
    """Return the names that a statement reads, and those in the quoted types of casts and type variables."""
    used = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            used.add(inner.id)
        elif isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and inner.func.id in {"cast", "TypeVar"}:
            values = [*inner.args, *(keyword.value for keyword in inner.keywords)]
            quoted = [one.value for one in values if isinstance(one, ast.Constant) and isinstance(one.value, str)]
            used.update(name for text in quoted for name in re.findall(r"[A-Za-z_]\w*", text))
    return used


def _insert(text: str, block: str, *, before: set[str]) -> str:
    """Put definitions before the first statement that uses them, or at the end."""
    lines = text.splitlines(keepends=True)
    body = ast.parse(text).body
    for number, statement in enumerate(body):
        is_import = isinstance(statement, ast.Import | ast.ImportFrom)
        if not is_import and _find_used(statement) & before:
            start, _ = _find_lines(lines, body, number)
            return "".join([*lines[:start], f"\n{block}\n\n\n", *lines[start:]])
    return f"{text.rstrip()}\n\n\n{block}\n"


def add_imports(text: str, needs: Needs, names: Names, *, target: str) -> str:
    """Add imports behind those of a module; the formatter sorts and joins them."""
    needed = {True: "", False: ""}
    for bound, one in _find_missing(text, needs, target).items():
        needed[one.is_typing] += f"{_build_statement(bound, one, names, target)}\n"
    body = ast.parse(text).body
    last = max((one.end_lineno or 0 for one in body if isinstance(one, ast.Import | ast.ImportFrom)), default=None)
    if last is None:
        last = (body[0].end_lineno or 0) if ast.get_docstring(ast.parse(text)) is not None else 0
    guarded = "".join(f"    {line}\n" for line in needed[True].splitlines())
    block = next((one.end_lineno or 0 for one in body if _is_typing(one)), None)
    inserted = [(last, needed[False])]
    if guarded and block is None:
        inserted = [(last, f"from typing import TYPE_CHECKING\n{needed[False]}\nif TYPE_CHECKING:\n{guarded}")]
    elif block is not None:
        inserted.append((block, guarded))
    lines = text.splitlines(keepends=True)
    for line, new in sorted(inserted, reverse=True):
        lines.insert(line, new)
    return "".join(lines)


def _find_missing(text: str, needs: Needs, target: str) -> dict[str, Bound]:
    """Return the imports that a module doesn't have yet."""
    known = {
        alias.asname or alias.name: (statement.module, alias.name, is_typing)
        for statement, is_typing in _list_statements(ast.parse(text).body)
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    missing = {}
    for bound, one in needs.loaded.items():
        source, name, is_typing = known.get(bound, (None, None, True))
        if source is not None and (source, name) != one.imported:
            raise SplitError(f"{target}: {bound} would stand for {source}.{name} and for {one.imported}")
        if source is None or (is_typing and not one.is_typing):
            missing[bound] = one
    return missing


def _is_typing(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.If) and isinstance(statement.test, ast.Name) and statement.test.id == "TYPE_CHECKING"
    )


def _build_statement(bound: str, one: Bound, names: Names, target: str) -> str:
    if one.is_module:
        source = one.imported.source
        return f"import {source}" if bound == source.partition(".")[0] else f"import {source} as {bound}"
    return "".join(build_statements([(one.imported, bound)], names, importing=target))
