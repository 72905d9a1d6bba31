"""Show that a merge changed nothing but places: every top-level definition has the syntax tree that it had before.

Import paths are compared by what they stand for. Names of modules in strings are those of the map. What each definition
uses is compared too: a name that means another definition than before is a difference, even if the syntax is the same.
"""

from __future__ import annotations

import ast
import copy
import io
import subprocess
import tarfile
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.structure.names import Names, build_full
from tools.structure.placement import Place, Placement, read_placement
from tools.structure.tree import (
    ROOT,
    Definition,
    Module,
    Tree,
    find_defined,
    find_source,
    flatten,
    read_tree,
)

Dumps = Mapping[Definition, Sequence[str]]
# Names leave it with their definitions.
_EXPORTS = "__all__"


def find_differences(root: Path, commit: str) -> tuple[list[str], int]:
    """Return how the tree differs from a commit before the move, one line each, and the number of definitions."""
    with tempfile.TemporaryDirectory() as folder:
        _extract(root, commit, Path(folder))
        old = read_tree(Path(folder) / "src" / ROOT)
        placement = read_placement(Path(folder) / "tools" / "structure")
    new = read_tree(root / "src" / ROOT)
    names = Names(old, _find_places(placement, read_placement(root / "tools" / "structure")))
    before = _dump_tree(old, _Old(names))
    after = _dump_tree(new, _New(new))
    found = [*_compare(before, after), *_compare_uses(old, new, names)]
    return found, len(before)


def _extract(root: Path, commit: str, folder: Path) -> None:
    command = ["git", "archive", commit, "src", "tools/structure"]
    packed = subprocess.run(command, cwd=root, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")


def _find_places(placement: Placement, new: Placement) -> Placement:
    """Return where each module is: one whose row is still the same isn't merged yet."""
    return Placement(
        {
            name: Place(name if new.modules.get(name) == place else place.merged_into, place.merged_into)
            for name, place in placement.modules.items()
        },
        {},
    )


class _Canonical(ast.NodeTransformer):
    """Brings a statement into a form that is the same before and after the merge."""

    module: Module

    def place(self, definition: Definition) -> Definition:
        """Return where a definition is after the merge."""
        raise NotImplementedError

    def translate(self, text: str) -> str:
        raise NotImplementedError

    def resolve(self, source: str, name: str) -> str:
        raise NotImplementedError

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Constant(self.translate(node.value)) if isinstance(node.value, str) else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        parts = [node.attr]
        inner = node.value
        while isinstance(inner, ast.Attribute):
            parts.append(inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name) and inner.id == ROOT:
            return ast.Name(self.translate(".".join([ROOT, *reversed(parts)])), node.ctx)
        return self.generic_visit(node)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for name in ("body", "orelse", "finalbody"):
            statements = getattr(node, name, None)
            if isinstance(statements, list):
                setattr(node, name, list(self._join_imports(statements)))
        return super().generic_visit(node)

    def _join_imports(self, body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
        """Yield statements, with what follows each other of imports as one."""
        waiting: list[str] = []
        for statement in body:
            if isinstance(statement, ast.Import | ast.ImportFrom):
                waiting += self._describe(statement)
                continue
            if waiting:
                yield ast.Global(sorted(waiting))
                waiting = []
            yield statement
        if waiting:
            yield ast.Global(sorted(waiting))

    def _describe(self, statement: ast.Import | ast.ImportFrom) -> Iterator[str]:
        source = find_source(statement, self.module) if isinstance(statement, ast.ImportFrom) else None
        own = build_full(self.place(Definition(self.module.name)).module)
        for alias in statement.names:
            if source is not None:
                found = self.resolve(source, alias.name)
                # What is in the same module now needs no import.
                if found.rpartition(".")[0] != own:
                    yield f"{found} as {alias.asname or alias.name}"
            elif isinstance(statement, ast.ImportFrom):
                yield f"{statement.module}.{alias.name} as {alias.asname or alias.name}"
            else:
                yield f"{self.translate(alias.name)} as {alias.asname}"


@dataclass
class _Old(_Canonical):
    names: Names

    def place(self, definition: Definition) -> Definition:
        return Definition(self.names.placement.find(definition).moved_to, definition.name)

    def translate(self, text: str) -> str:
        return self.names.rewrite_text(text)

    def resolve(self, source: str, name: str) -> str:
        found = self.names.tree.find(Definition(source, name))
        if found is None:
            return f"{build_full(source)}.{name}"
        place = self.names.placement.find(found).moved_to
        return f"{build_full(place)}.{found.name}" if found.name else build_full(place)


@dataclass
class _New(_Canonical):
    tree: Tree

    def place(self, definition: Definition) -> Definition:
        return definition

    def translate(self, text: str) -> str:
        return text

    def resolve(self, source: str, name: str) -> str:
        found = self.tree.find(Definition(source, name))
        if found is None:
            return f"{build_full(source)}.{name}"
        return f"{build_full(found.module)}.{found.name}" if found.name else build_full(found.module)


def _dump_tree(tree: Tree, canonical: _Canonical) -> Dumps:
    dumps: dict[Definition, list[str]] = {}
    for module in tree.modules.values():
        for definition, dumped in _dump_module(module, canonical).items():
            # Definitions that are the same in two modules become one.
            if dumps.get(definition) != dumped:
                dumps.setdefault(definition, []).extend(dumped)
    return dumps


def _dump_module(module: Module, canonical: _Canonical) -> Dumps:
    dumps: dict[Definition, list[str]] = defaultdict(list)
    canonical.module = module
    last: tuple[str, ...] = ()
    for statement in flatten(module.body[1:] if _has_docstring(module) else module.body):
        if isinstance(statement, ast.Import | ast.ImportFrom) or _is_typing(statement):
            continue
        is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        defined = tuple(find_defined(statement))
        last = defined or (last if is_text else ())
        if _EXPORTS in defined:
            continue
        dump = ast.dump(canonical.visit(copy.deepcopy(statement)))
        for name in last or ("",):
            dumps[canonical.place(Definition(module.name, name))].append(dump)
    return dumps


def _has_docstring(module: Module) -> bool:
    match module.body[:1]:
        case [ast.Expr(value=ast.Constant(value=str()))]:
            return True
    return False


def _is_typing(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Name(id="TYPE_CHECKING")):
            return True
    return False


def _compare(before: Dumps, after: Dumps) -> Iterator[str]:
    for definition in sorted({*before, *after}):
        old, new = list(before.get(definition, ())), list(after.get(definition, ()))
        if not new:
            yield f"missing: {definition}"
        elif not old:
            yield f"new: {definition}"
        elif len(old) != len(new):
            yield f"{len(new)} instead of {len(old)} statements: {definition}"
        elif old != new and (definition.name or sorted(old) != sorted(new)):
            yield f"changed: {definition}{_describe_change(''.join(old), ''.join(new))}"


def _describe_change(old: str, new: str) -> str:
    at = next((n for n, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), 0)
    start = max(0, at - 40)
    return f"\n  - …{old[start : at + 60]}…\n  + …{new[start : at + 60]}…"


def _compare_uses(old: Tree, new: Tree, names: Names) -> Iterator[str]:
    def place(definition: Definition) -> Definition:
        return Definition(names.placement.find(definition).moved_to, definition.name)

    before = {(place(use.user), place(use.used)) for use in old.find_uses() if use.user.name}
    after = {(use.user, use.used) for use in new.find_uses() if use.user.name}
    for user, used in sorted(before ^ after):
        if user != used:
            yield f"{'no longer' if (user, used) in before else 'newly'} uses: {user} -> {used}"
