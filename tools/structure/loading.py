"""What is loaded with a module: the modules of the tree and the packages of others, while it is imported."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from tools.structure.tree import ROOT, Module, Tree, find_source, flatten


@dataclass(frozen=True)
class Loading:
    """The imports of a tree that run when its modules are loaded."""

    tree: Tree

    @cached_property
    def edges(self) -> Mapping[str, set[str]]:
        """The modules of the tree that each module imports, with the packages that they are in."""
        return {name: set(self._find_modules(module)) for name, module in self.tree.modules.items()}

    @cached_property
    def _outside(self) -> Mapping[str, set[str]]:
        return {name: set(_find_outside(module)) for name, module in self.tree.modules.items()}

    def find_outside(self, name: str) -> frozenset[str]:
        """Return the packages that are neither of the tree nor of Python and are loaded with a module."""
        seen = {name}
        waiting = [name]
        found: set[str] = set()
        while waiting:
            one = waiting.pop()
            found |= self._outside.get(one, set())
            new = self.edges.get(one, set()) - seen
            seen |= new
            waiting += new
        return frozenset(found)

    def _find_modules(self, module: Module) -> Iterator[str]:
        above = {module.name, *_find_parents(module.name)}
        for imported in _find_imported(module):
            for name in (imported, *_find_parents(imported)):
                if name in self.tree.modules and name not in above:
                    yield name


def _find_imported(module: Module) -> Iterator[str]:
    for statement in flatten(module.body, typing=False):
        if isinstance(statement, ast.Import):
            yield from (alias.name.removeprefix(f"{ROOT}.") for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            source = find_source(statement, module)
            if source is not None:
                yield source
                # A module of a package; a name that is none is not found in the tree.
                yield from (f"{source}.{alias.name}" for alias in statement.names)


def _find_outside(module: Module) -> Iterator[str]:
    for statement in flatten(module.body, typing=False):
        if isinstance(statement, ast.Import):
            found = [alias.name for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom) and not statement.level:
            found = [statement.module or ""]
        else:
            continue
        for name in found:
            top = name.partition(".")[0]
            if top != ROOT and top not in sys.stdlib_module_names:
                yield top


def _find_parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[:length]) for length in range(1, len(parts)))
