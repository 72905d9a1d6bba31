"""Join the modules that become one: their docstrings, imports, `__all__` and definitions.

What a fragment defines keeps its text. The fragments follow each other in the order in which they import each other, so
that everything that is evaluated while the module is loaded is defined before.
"""

from __future__ import annotations

import ast
import builtins
import re
import symtable
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tools.structure.imports import PythonFile, find_span
from tools.structure.names import Imported, Names, build_alias, build_full
from tools.structure.tree import ROOT, Definition, Module, find_defined, find_source, flatten

_WIDTH = 118
# Calls whose result is the same wherever they are evaluated.
_PURE = frozenset({"TypeVar", "ParamSpec", "getLogger", "frozenset", "compile", "Path", "Identifier", "SQL"})


@dataclass(frozen=True, slots=True)
class Binding:
    """One name that a module-level import binds, as the statement is after the merge."""

    bound: str
    thing: str
    """The whole name of what it stands for. Two imports of one thing may take different ways."""
    statement: str
    is_typing: bool
    above: tuple[str, ...] = ()
    """The comment above the statement."""
    comment: str = ""


_TYPE_CHECKING = Binding("TYPE_CHECKING", "typing.TYPE_CHECKING", "from typing import TYPE_CHECKING", is_typing=False)


@dataclass(slots=True)
class Fragment:
    """One of the modules that become one."""

    module: Module
    text: str
    bindings: list[Binding] = field(default_factory=list)
    own: list[tuple[str, str]] = field(default_factory=list)
    """The names that it imports from other fragments, as bound and as defined."""
    gone: set[int] = field(default_factory=set)
    """The lines that don't stay with its definitions."""
    main: str = ""
    exports: list[str] | None = None

    @property
    def docstring(self) -> ast.stmt | None:
        match self.module.body[:1]:
            case [ast.Expr(value=ast.Constant(value=str())) as statement]:
                return statement
        return None


@dataclass(frozen=True)
class Joined:
    """The text of a module that was joined, or what keeps it from being joined; and what a person may want to know."""

    text: str
    problems: tuple[str, ...]
    notes: tuple[str, ...]


def join(target: str, modules: Sequence[tuple[Module, str]], names: Names) -> Joined:
    """Join modules with their texts to the module with the whole name `target`."""
    return _Join(target, [Fragment(module, text) for module, text in modules], names).build()


class _Join:
    def __init__(self, target: str, fragments: list[Fragment], names: Names) -> None:
        self._target = target
        self._fragments = fragments
        self._names = names
        self._problems: list[str] = []
        self._notes: list[str] = []
        self._clashing: set[str] = set()

    def build(self) -> Joined:
        for fragment in self._fragments:
            self._cut(fragment)
        ordered = self._sort()
        self._check_names()
        self._unify(ordered)
        blocks = [] if self._problems else [self._build_block(fragment) for fragment in ordered]
        mains = [fragment.main for fragment in ordered if fragment.main]
        if len(mains) > 1:
            self._problem("two fragments are programs")
        text = "" if self._problems else "\n\n\n".join(part for part in [self._build_head(), *blocks, *mains] if part)
        return Joined(f"{text}\n", tuple(self._problems), tuple(self._notes))

    def _problem(self, text: str) -> None:
        self._problems.append(f"{self._target}: {text}")

    def _cut(self, fragment: Fragment) -> None:
        """Take what the joined module has once out of a fragment: docstring, imports, `__all__`, the start."""
        lines = fragment.text.splitlines(keepends=True)
        if fragment.docstring is not None:
            fragment.gone.update(_list_lines(fragment.docstring))
        for statement in fragment.module.body:
            match statement:
                case ast.Import() | ast.ImportFrom():
                    self._read_import(fragment, statement, is_typing=False)
                    fragment.gone.update(_list_lines(statement))
                    fragment.gone.update(_find_above(lines, statement))
                case ast.If(test=ast.Name(id="TYPE_CHECKING"), orelse=[]):
                    self._cut_typing(fragment, statement)
                case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
                    start, end = find_span(fragment.text, statement)
                    fragment.main = self._rewrite(fragment, fragment.text[start:end])
                    fragment.gone.update(_list_lines(statement))
                case ast.If() | ast.Try() if _has_import(statement):
                    self._problem(f"{fragment.module.name} imports in a condition")
                case _ if "__all__" in find_defined(statement):
                    fragment.exports = _read_exports(statement)
                    fragment.gone.update(_list_lines(statement))

    def _cut_typing(self, fragment: Fragment, statement: ast.If) -> None:
        lines = fragment.text.splitlines(keepends=True)
        imports = [inner for inner in statement.body if isinstance(inner, ast.Import | ast.ImportFrom)]
        for inner in imports:
            self._read_import(fragment, inner, is_typing=True)
            fragment.gone.update(_list_lines(inner))
            fragment.gone.update(_find_above(lines, inner))
        if len(imports) == len(statement.body):
            fragment.gone.update(_list_lines(statement))
        else:
            fragment.bindings.append(_TYPE_CHECKING)

    def _read_import(self, fragment: Fragment, statement: ast.Import | ast.ImportFrom, *, is_typing: bool) -> None:
        lines = fragment.text.splitlines(keepends=True)
        above = tuple(lines[number].strip() for number in sorted(_find_above(lines, statement)))
        for alias in statement.names:
            if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
                continue
            comment = _find_comment(fragment.text, statement, alias)
            if isinstance(statement, ast.Import):
                found = self._read_module(alias)
            else:
                found = self._read_name(fragment, statement, alias)
            if found is not None:
                bound, thing, written = found
                fragment.bindings.append(Binding(bound, thing, written, is_typing, above, comment))
                above = ()

    def _read_module(self, alias: ast.alias) -> tuple[str, str, str] | None:
        name = alias.name
        if name.startswith(f"{ROOT}."):
            name = self._names.find_dotted(name.removeprefix(f"{ROOT}."))
        if name == self._target:
            if alias.asname:
                self._problem(f"a fragment imports another one as {alias.asname}")
            return None
        if alias.asname:
            return alias.asname, name, f"import {name} as {alias.asname}"
        return name.partition(".")[0], name.partition(".")[0], f"import {name}"

    def _read_name(
        self, fragment: Fragment, statement: ast.ImportFrom, alias: ast.alias
    ) -> tuple[str, str, str] | None:
        bound = alias.asname or alias.name
        source = find_source(statement, fragment.module)
        imported = None
        if source is not None:
            imported = self._names.find_imported(source, alias.name, importing=self._target)
        if source is None or imported is None:
            home = "." * statement.level + (statement.module or "")
            return bound, f"{home}.{alias.name}", f"from {home} import {build_alias(alias.name, bound)}"
        thing = self._find_thing(Definition(source, alias.name), imported)
        if thing == self._target:
            self._problem(f"{fragment.module.name} imports another fragment as {bound}")
            return None
        home, _, defined = thing.rpartition(".")
        if self._target in {home, imported.source}:
            fragment.own.append((bound, defined if home == self._target else imported.name))
            return None
        return bound, thing, f"from {imported.source} import {build_alias(imported.name, bound)}"

    def _find_thing(self, exported: Definition, imported: Imported) -> str:
        found = self._names.tree.find(exported)
        written = f"{imported.source}.{imported.name}"
        if found is None:
            return written
        if found.name:
            return f"{self._names.find_definition(found)}.{found.name}"
        # A name that only exists at run time has no definition.
        return written if found.module == exported.module else self._names.find_module(found.module) or written

    def _sort(self) -> list[Fragment]:
        """Return the fragments so that each follows those that it imports when it is loaded."""
        waiting = {fragment.module.name: fragment for fragment in self._fragments}
        needed = {name: self._find_needed(fragment) & waiting.keys() - {name} for name, fragment in waiting.items()}
        ordered: list[Fragment] = []
        while waiting:
            ready = sorted(name for name in waiting if not needed[name] & waiting.keys())
            if not ready:
                self._problem(f"the fragments {', '.join(sorted(waiting))} import each other")
                return [*ordered, *waiting.values()]
            ordered.append(waiting.pop(ready[0]))
        return ordered

    def _find_needed(self, fragment: Fragment) -> set[str]:
        found = {fragment.module.imported[bound].module for bound in fragment.module.loaded}
        return found | {used.module for used in self._names.tree.find_loaded(fragment.module.name)}

    def _check_names(self) -> None:
        """Find names that would stand for two things."""
        things: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for fragment in self._fragments:
            name = fragment.module.name
            for bound, dumped in _dump_definitions(fragment).items():
                things[bound][dumped].append(name)
            for binding in fragment.bindings:
                things[binding.bound][f"import of {binding.thing}"].append(name)
        self._check_clashes(things)
        for fragment in self._fragments:
            self._check_aliases(fragment)
            for used in sorted(_find_builtins(fragment.text)):
                others = [one for meaning in things.get(used, {}).values() for one in meaning]
                if others and fragment.module.name not in others:
                    self._problem(f"{fragment.module.name} uses the builtin {used}, which {others[0]} defines")

    def _check_clashes(self, things: Mapping[str, Mapping[str, list[str]]]) -> None:
        for bound, meanings in sorted(things.items()):
            if len(meanings) > 1:
                self._clashing.add(bound)
                ways = (thing if thing.startswith("import of ") else "definition" for thing in meanings)
                described = [
                    f"{way} in {', '.join(places)}" for way, places in zip(ways, meanings.values(), strict=True)
                ]
                self._problem(f"{bound} stands for several things: {'; '.join(described)}")

    def _check_aliases(self, fragment: Fragment) -> None:
        """Find imports that give a name of another fragment a new name: they vanish, also those in functions."""
        own = list(fragment.own)
        for statement in fragment.module.body:
            inner = [] if isinstance(statement, ast.ImportFrom) else ast.walk(statement)
            for node in inner:
                source = find_source(node, fragment.module) if isinstance(node, ast.ImportFrom) else None
                if isinstance(node, ast.ImportFrom) and source is not None:
                    own += self._find_own(source, node)
        for bound, defined in own:
            if bound != defined:
                self._problem(f"{fragment.module.name} imports {defined} of another fragment as {bound}")

    def _find_own(self, source: str, node: ast.ImportFrom) -> Iterator[tuple[str, str]]:
        for alias in node.names:
            found = self._names.find_imported(source, alias.name, importing=self._target)
            if found is not None and found.source == self._target:
                yield alias.asname or alias.name, found.name

    def _unify(self, ordered: Sequence[Fragment]) -> None:
        """Keep the first of definitions that are the same."""
        kept: dict[str, str] = {}
        for fragment in ordered:
            lines = fragment.text.splitlines(keepends=True)
            body = list(fragment.module.body)
            for number, statement in enumerate(body):
                defined = [name for name in find_defined(statement) if name != "__all__"]
                twice = [name for name in defined if kept.get(name, fragment.module.name) != fragment.module.name]
                kept |= {name: fragment.module.name for name in defined if name not in kept}
                if not twice or self._clashing & {*twice}:
                    continue
                if len(twice) < len(defined) or not _is_pure(statement):
                    self._problem(f"{', '.join(twice)} of {fragment.module.name} has a state of its own")
                start, end = find_lines(lines, body, number)
                fragment.gone.update(range(start, end))
                self._notes.append(
                    f"{self._target}: {', '.join(twice)} was the same in {kept[twice[0]]} and {fragment.module.name}"
                )

    def _build_block(self, fragment: Fragment) -> str:
        lines = fragment.text.splitlines(keepends=True)
        left = "".join(line for number, line in enumerate(lines) if number not in fragment.gone)
        block = self._rewrite(fragment, left).strip("\n")
        reason = "" if fragment is self._find_first() else _build_reason(fragment, self._names)
        return f"{reason}\n\n{block}".strip("\n") if block else reason

    def _rewrite(self, fragment: Fragment, text: str) -> str:
        rewritten = PythonFile(text, self._target, fragment.module).rewrite(self._names)
        try:
            ast.parse(rewritten)
        except SyntaxError as error:
            self._problem(f"{fragment.module.name}: {error.msg} where an import of another fragment was")
        return rewritten

    def _rewrite_prose(self, text: str) -> str:
        return self._names.rewrite_text(text, importing=self._target)

    def _find_first(self) -> Fragment:
        """Return the fragment whose docstring the module has: the one with its name, or else the biggest."""
        named = [one for one in self._fragments if build_full(one.module.name) == self._target]
        return named[0] if named else max(self._fragments, key=lambda one: one.module.lines)

    def _build_head(self) -> str:
        first = self._find_first()
        parts = []
        if first.docstring is not None:
            start, end = find_span(first.text, first.docstring)
            parts.append(self._rewrite_prose(first.text[start:end]))
        if any("from __future__ import annotations" in one.text for one in self._fragments):
            parts.append("from __future__ import annotations")
        parts.append(_build_imports([binding for one in self._fragments for binding in one.bindings]))
        if exports := self._join_exports():
            parts.append(f"__all__ = [{', '.join(map(_quote, exports))}]")
        return "\n\n".join(part for part in parts if part)

    def _join_exports(self) -> list[str]:
        """Return the joined `__all__`; a module that re-exports nothing needs none."""
        listed = {name for one in self._fragments for name in one.exports or ()}
        defined = {name for one in self._fragments for name in one.module.definitions}
        if not listed - defined:
            return []
        public = {name for one in self._fragments if one.exports is None for name in one.module.definitions}
        found = listed | {name for name in public if not name.startswith("_")}
        return sorted(found, key=lambda name: (not name.isupper(), not name[0].isupper(), name))


def _list_lines(statement: ast.stmt) -> range:
    return range(statement.lineno - 1, statement.end_lineno or statement.lineno)


def _find_above(lines: Sequence[str], statement: ast.stmt) -> set[int]:
    """Return the lines of the comment above a statement."""
    start = statement.lineno - 1
    found = set()
    while start and lines[start - 1].strip().startswith("#"):
        start -= 1
        found.add(start)
    return found


def _find_comment(text: str, statement: ast.stmt, alias: ast.alias) -> str:
    """Return the comments of one name of an import statement, and those of the whole statement."""
    lines = text.splitlines()
    first, last = statement.lineno, statement.end_lineno or statement.lineno
    numbers = {first, last, alias.lineno}
    rows = [lines[number - 1] for number in sorted(numbers)]
    return "  ".join(f"#{row.partition('#')[2]}" for row in rows if "#" in row)


def _has_import(statement: ast.stmt) -> bool:
    return any(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.walk(statement))


def _read_exports(statement: ast.stmt) -> list[str]:
    return [
        node.value for node in ast.walk(statement) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def _dump_definitions(fragment: Fragment) -> dict[str, str]:
    dumped: dict[str, str] = defaultdict(str)
    for statement in flatten(fragment.module.body):
        for name in find_defined(statement):
            if name != "__all__":
                dumped[name] += ast.dump(statement)
    return dumped


def _is_pure(statement: ast.stmt) -> bool:
    """Return whether two equal statements define the same: nothing that changes, and no class."""
    if isinstance(statement, ast.FunctionDef):
        return not statement.decorator_list
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
        return False
    waiting: list[ast.AST] = [statement.value]
    while waiting:
        node = waiting.pop()
        match node:
            case ast.Call(func=ast.Name(id="frozenset"), args=[ast.Set()]) | ast.Subscript():
                # A subscript is a type here: two equal ones are the same.
                continue
            case ast.Dict() | ast.List() | ast.Set() | ast.ListComp() | ast.SetComp() | ast.DictComp():
                return False
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name not in _PURE:
                return False
        waiting.extend(ast.iter_child_nodes(node))
    return True


def _find_builtins(text: str) -> set[str]:
    """Return the builtins that a module uses by their own names."""
    found: set[str] = set()
    table = symtable.symtable(text, "module", "exec")
    bound = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    waiting = [table]
    while waiting:
        scope = waiting.pop()
        waiting.extend(scope.get_children())
        free = (
            one.get_name() for one in scope.get_symbols() if one.is_referenced() and (one.is_global() or scope is table)
        )
        found.update(name for name in free if name not in bound and hasattr(builtins, name))
    return found


def find_lines(lines: Sequence[str], body: Sequence[ast.stmt], number: int) -> tuple[int, int]:
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


def _build_reason(fragment: Fragment, names: Names) -> str:
    """Return a docstring without its first paragraph as a comment."""
    docstring = names.rewrite_text(ast.get_docstring(ast.Module(list(fragment.module.body), [])) or "")
    return "\n#\n".join(_wrap(paragraph.strip("\n")) for paragraph in docstring.split("\n\n")[1:])


def _wrap(paragraph: str) -> str:
    """Return a paragraph as a comment; each point of a list is wrapped by itself, and what is indented stays."""
    points = re.split(r"\n(?=[-*] )", paragraph)
    written = []
    for point in points:
        indent = "  " if point[:2] in {"- ", "* "} else ""
        if re.search(rf"^(?!{indent}\S|[-*] )", point, re.MULTILINE):
            written += [f"# {line}".rstrip() for line in point.splitlines()]
        else:
            joined = " ".join(line.strip() for line in point.splitlines())
            written.append(textwrap.fill(joined, _WIDTH, initial_indent="# ", subsequent_indent=f"# {indent}"))
    return "\n".join(written)


def _build_imports(bindings: Iterable[Binding]) -> str:
    """Return the import statements; one that runs wins over one for annotations."""
    found: dict[tuple[str, str], Binding] = {}
    for binding in bindings:
        key = (binding.bound, binding.thing)
        if binding.statement.startswith("import "):
            key = (binding.statement, "")
        known = found.get(key)
        found[key] = binding if known is None else _choose(known, binding)
    is_guarded = any(binding.is_typing for binding in found.values())
    loaded = list(_write_imports(one for one in found.values() if not one.is_typing))
    if not is_guarded:
        return "\n".join(loaded)
    guarded = textwrap.indent("\n".join(_write_imports(one for one in found.values() if one.is_typing)), "    ")
    return "\n".join([*loaded, "from typing import TYPE_CHECKING", "", "if TYPE_CHECKING:", guarded])


def _choose(one: Binding, other: Binding) -> Binding:
    direct = f"from {one.thing.rpartition('.')[0]} import "
    chosen = other if other.statement.startswith(direct) and not one.statement.startswith(direct) else one
    above = (*one.above, *(line for line in other.above if line not in one.above))
    is_typing = one.is_typing and other.is_typing
    return Binding(chosen.bound, chosen.thing, chosen.statement, is_typing, above, one.comment or other.comment)


def _write_imports(bindings: Iterable[Binding]) -> Iterator[str]:
    ordered = sorted(bindings, key=lambda one: one.statement)
    # For their effect alone. The linter asks for the comment at the last one, and deletes the others.
    effect = next((one.comment for one in ordered if one.bound == ROOT and "F401" in one.comment), "")
    for binding in ordered:
        yield from binding.above
        comment = binding.comment or (effect if binding.bound == ROOT else "")
        yield f"{binding.statement}  {comment}".rstrip()


def _quote(name: str) -> str:
    return f'"{name}"'


def find_targets(names: Names) -> Mapping[str, list[str]]:
    """Return the modules that become each module, by its whole name."""
    found: dict[str, list[str]] = defaultdict(list)
    for name in names.tree.modules:
        target = names.find_module(name)
        if target is not None:
            found[target].append(name)
    return found
