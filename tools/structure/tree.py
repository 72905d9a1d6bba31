"""The definitions of a source tree and which definition uses which, read from the syntax alone.

Imports inside functions and under TYPE_CHECKING count as any other, and so do annotations, also those in quotes: each
of them ties two modules together, whether it runs or not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

ROOT = "seamark"


class Definition(NamedTuple):
    """A top-level name of a module; an empty name stands for the statements that define nothing."""

    module: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.module}:{self.name}" if self.name else self.module


class Use(NamedTuple):
    """One definition that needs another."""

    user: Definition
    used: Definition


@dataclass(slots=True)
class Module:
    """What one file defines and what its names stand for."""

    name: str
    is_package: bool
    body: Sequence[ast.stmt]
    lines: int
    definitions: dict[str, int] = field(default_factory=dict)
    """The lines of each definition."""
    imported: dict[str, Definition] = field(default_factory=dict)
    """The module-level imports by their local name; an imported module has an empty definition name."""
    loaded: set[str] = field(default_factory=set)
    """The local names of the imports that run when the module is loaded."""


@dataclass(frozen=True, slots=True)
class Tree:
    """The modules of a source tree by name, without the name of the root package."""

    modules: Mapping[str, Module]

    def find(self, target: Definition) -> Definition | None:
        """Follow re-exports to the definition itself; None for what is no part of the tree."""
        seen = set()
        while target not in seen:
            seen.add(target)
            module = self.modules.get(target.module)
            if module is None:
                return None
            if not target.name or target.name in module.definitions:
                return target
            inner = target.name if target.module == ROOT else f"{target.module}.{target.name}"
            if target.name in module.imported:
                target = module.imported[target.name]
            elif inner in self.modules:
                return Definition(inner)
            else:
                # A name that only exists at run time belongs to its module.
                return Definition(target.module)
        return Definition(target.module)

    def find_loaded(self, name: str) -> frozenset[Definition]:
        """Return what a module imports when it is loaded."""
        module = self.modules[name]
        found = (self.find(module.imported[bound]) for bound in module.loaded)
        return frozenset(target for target in found if target is not None)

    def find_uses(self) -> frozenset[Use]:
        """Return every use of one definition by another, also within a module."""
        return frozenset(
            Use(user, used)
            for module in self.modules.values()
            for user, used in _Uses(self, module).collect()
            if user != used
        )


def read_tree(folder: Path) -> Tree:
    """Read every module below the folder of the root package."""
    modules = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts) or ROOT
        modules[name] = read_module(path, name)
    return Tree(modules)


def read_module(path: Path, name: str) -> Module:
    """Read one file as the module of a name."""
    return parse_module(path.read_text(encoding="utf-8"), name, is_package=path.stem == "__init__")


def parse_module(text: str, name: str, *, is_package: bool) -> Module:
    """Read a text as the module of a name."""
    module = Module(name, is_package, ast.parse(text, name).body, text.count("\n"))
    for statement in flatten(module.body):
        for defined in find_defined(statement):
            size = (statement.end_lineno or statement.lineno) - statement.lineno + 1
            module.definitions[defined] = module.definitions.get(defined, 0) + size
        module.imported.update(_find_imported(statement, module))
    for statement in flatten(module.body, typing=False):
        module.loaded.update(bound for bound, _ in _find_imported(statement, module))
    return module


def flatten(body: Iterable[ast.stmt], *, typing: bool = True) -> Iterator[ast.stmt]:
    """Yield module-level statements, those in conditions and handlers too; under TYPE_CHECKING only with `typing`."""
    for statement in body:
        match statement:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")) if not typing:
                yield from flatten(statement.orelse, typing=typing)
            case ast.If():
                yield ast.copy_location(ast.Expr(statement.test), statement)
                yield from flatten([*statement.body, *statement.orelse], typing=typing)
            case ast.Try():
                handled = [inner for handler in statement.handlers for inner in handler.body]
                inner = [*statement.body, *handled, *statement.orelse, *statement.finalbody]
                yield from flatten(inner, typing=typing)
            case _:
                yield statement


def find_defined(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a module-level statement defines."""
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield statement.name
        case ast.Assign():
            for target in statement.targets:
                yield from _find_stored(target)
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name


def _find_stored(node: ast.AST) -> Iterator[str]:
    return (inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store))


def _find_imported(statement: ast.stmt, module: Module) -> Iterator[tuple[str, Definition]]:
    """Yield the names of the tree that an import statement binds."""
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            if alias.name == ROOT or alias.name.startswith(f"{ROOT}."):
                # Without a new name, `import seamark.a.b` binds the root.
                bound = alias.name if alias.asname else ROOT
                yield alias.asname or ROOT, Definition(_cut_root(bound))
    elif isinstance(statement, ast.ImportFrom):
        source = find_source(statement, module)
        if source is not None:
            for alias in statement.names:
                yield alias.asname or alias.name, Definition(source, alias.name)


def find_source(statement: ast.ImportFrom, module: Module) -> str | None:
    """Return the module of the tree that a statement imports from; None if it is no part of the tree."""
    if not statement.level:
        source = statement.module or ""
        return _cut_root(source) if source == ROOT or source.startswith(f"{ROOT}.") else None
    parts = [] if module.name == ROOT else module.name.split(".")
    kept = parts[: len(parts) - statement.level + module.is_package]
    return ".".join([*kept, *([statement.module] if statement.module else [])]) or ROOT


def _cut_root(name: str) -> str:
    return name.removeprefix(f"{ROOT}.")


class _Uses(ast.NodeVisitor):
    """Collects what the definitions of one module use."""

    def __init__(self, tree: Tree, module: Module) -> None:
        self._tree = tree
        self._module = module
        self._users: Sequence[str] = ()
        self._scopes: list[dict[str, Definition | None]] = []
        self._found: set[tuple[Definition, Definition]] = set()
        self._named: set[str] = set()
        self._plain: set[tuple[str, str]] = set()
        """Users and the modules that they import by `import a.b`."""

    def collect(self) -> set[tuple[Definition, Definition]]:
        for statement in flatten(self._module.body):
            self._users = tuple(find_defined(statement)) or ("",)
            if isinstance(statement, ast.Import):
                self._keep_plain(statement)
            elif not isinstance(statement, ast.ImportFrom):
                self.visit(statement)
        self._users = ("",)
        for name, target in self._module.imported.items():
            # Re-exports, and imports for their effect alone.
            if name not in self._named:
                self._add(target)
        used = {target.module for _, target in self._found}
        for user, module in self._plain:
            if module in self._tree.modules and module not in used:
                self._found.add((Definition(self._module.name, user), Definition(module)))
        return self._found

    def _keep_plain(self, statement: ast.Import) -> None:
        for alias in statement.names:
            if alias.name.startswith(f"{ROOT}.") and not alias.asname:
                self._plain.update((user, _cut_root(alias.name)) for user in self._users)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._resolve(node, ())

    def visit_Attribute(self, node: ast.Attribute) -> None:
        attributes = [node.attr]
        inner = node.value
        while isinstance(inner, ast.Attribute):
            attributes.append(inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name):
            self._resolve(inner, tuple(reversed(attributes)))
        else:
            self.visit(inner)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for outer in node.decorator_list:
            self.visit(outer)
        self._visit_arguments(node.args)
        if node.returns is not None:
            self._visit_annotation(node.returns)
        self._visit_scope(_find_locals(node), node.body)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_arguments(node.args)
        self._visit_scope(_find_locals(node), [node.body])

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        self._visit_scope(_find_stored(node), ast.iter_child_nodes(node))

    visit_SetComp = visit_GeneratorExp = visit_DictComp = visit_ListComp  # noqa: N815

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._visit_annotation(node.annotation)
        if node.value is not None:
            self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        for number, argument in enumerate(node.args):
            is_type = name == "cast" and number == 0
            (self._visit_annotation if is_type else self.visit)(argument)
        for keyword in node.keywords:
            (self._visit_annotation if name == "TypeVar" else self.visit)(keyword.value)
        self.visit(node.func)

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        if isinstance(node, ast.Import):
            self._keep_plain(node)
        for name, target in _find_imported(node, self._module):
            self._add(target)
            if self._scopes:
                self._scopes[-1][name] = target

    visit_ImportFrom = visit_Import  # noqa: N815

    def _visit_arguments(self, arguments: ast.arguments) -> None:
        for default in (*arguments.defaults, *arguments.kw_defaults):
            if default is not None:
                self.visit(default)
        for argument in _list_arguments(arguments):
            if argument.annotation is not None:
                self._visit_annotation(argument.annotation)

    def _visit_annotation(self, node: ast.expr) -> None:
        """Visit a type, with the names in its strings. A string that is no expression (Literal) names nothing."""
        self.visit(node)
        for inner in ast.walk(node):
            if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                try:
                    quoted = ast.parse(inner.value, mode="eval").body
                except SyntaxError:
                    continue
                self.visit(quoted)

    def _visit_scope(self, bound: Iterable[str], body: Iterable[ast.AST]) -> None:
        self._scopes.append(dict.fromkeys(bound))
        for node in body:
            self.visit(node)
        self._scopes.pop()

    def _resolve(self, node: ast.Name, attributes: Sequence[str]) -> None:
        target = self._find_name(node.id)
        if target is None:
            return
        for attribute in attributes:
            found = self._tree.find(target)
            if found is None or found.name:
                break
            target = Definition(found.module, attribute)
        self._add(target)

    def _find_name(self, name: str) -> Definition | None:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        if name in self._module.imported:
            self._named.add(name)
            return self._module.imported[name]
        return Definition(self._module.name, name) if name in self._module.definitions else None

    def _add(self, target: Definition) -> None:
        found = self._tree.find(target)
        if found is not None:
            self._found.update((Definition(self._module.name, user), found) for user in self._users)


def _list_arguments(arguments: ast.arguments) -> list[ast.arg]:
    return [
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        *(one for one in (arguments.vararg, arguments.kwarg) if one is not None),
    ]


def _find_locals(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> set[str]:
    """Return the names that a function binds itself, without those of the functions in it."""
    bound = {argument.arg for argument in _list_arguments(function.args)}
    shared: set[str] = set()
    waiting: list[ast.AST] = [function.body] if isinstance(function, ast.Lambda) else list(function.body)
    while waiting:
        node = waiting.pop()
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                bound.add(name)
                continue
            case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                continue
            case ast.Name(id=name, ctx=ast.Store()):
                bound.add(name)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                bound.add(name)
            case ast.Global(names=names):
                shared.update(names)
        waiting.extend(ast.iter_child_nodes(node))
    return bound - shared
