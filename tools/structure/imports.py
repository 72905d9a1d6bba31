"""Rewrite the import statements of a Python file, and the names of modules in the rest of it.

Only the statements that change are replaced, by their positions in the syntax tree. Everything else stays as it is
written, so that no library for lossless syntax trees is needed; the formatter then sorts and wraps.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tools.structure.names import Imported, Names, build_alias
from tools.structure.tree import ROOT, Module, find_source

_WIDTH = 120


class Edit(NamedTuple):
    """A part of a text and what replaces it."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class PythonFile:
    """A file that imports from the tree: its text, its whole name after the merge, and its old module if it has one."""

    text: str
    importing: str
    module: Module

    def rewrite(self, names: Names) -> str:
        """Return the text after the merge."""
        edits = [edit for node in ast.walk(ast.parse(self.text)) for edit in self._rewrite_statement(node, names=names)]
        parts, at = [], 0
        for edit in sorted(edits):
            parts += [names.rewrite_text(self.text[at : edit.start], importing=self.importing), edit.text]
            at = edit.end
        return "".join([*parts, names.rewrite_text(self.text[at:], importing=self.importing)])

    def _rewrite_statement(self, node: ast.AST, *, names: Names) -> Iterator[Edit]:
        if not isinstance(node, ast.Import | ast.ImportFrom):
            return
        start, end = find_span(self.text, node)
        if isinstance(node, ast.Import):
            rewritten = _rewrite_import(node, names)
        else:
            rewritten = _rewrite_from(node, names, importing=self.importing, module=self.module)
        if rewritten is None:
            if ROOT in self.text[start:end]:
                yield Edit(start, end, self.text[start:end])
            return
        yield self._build_edit(rewritten, start, end)

    def _build_edit(self, statements: list[str], start: int, end: int) -> Edit:
        line = self.text.rfind("\n", 0, start) + 1
        stop = self.text.find("\n", end)
        stop = len(self.text) if stop < 0 else stop
        comments = list(_find_comments(self.text[start:end]))
        trailing = self.text[end:stop].strip()
        if trailing.startswith("#"):
            comments.append(trailing)
            end = stop
        if not statements:
            # An import of what is in the module itself now.
            return Edit(line, min(stop + 1, len(self.text)), "")
        comment = f"  {' '.join(comments)}" if comments else ""
        indent = self.text[line:start]
        return Edit(start, end, f"\n{indent}".join(f"{statement}{comment}" for statement in statements))


def join_comments(text: str) -> str:
    """Write a comment once that each name of an import statement has; the import sorter repeats it for each of them."""
    lines = text.splitlines(keepends=True)
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.ImportFrom) or node.lineno == node.end_lineno:
            continue
        rows = range(node.lineno - 1, node.end_lineno or node.lineno)
        head, *names, _ = [lines[row].partition("#")[2].strip() for row in rows]
        found = {*names, head} - {""}
        if len(found) == 1 and (head or "" not in names):
            indent = " " * node.col_offset
            aliases = ", ".join(build_alias(alias.name, alias.asname or alias.name) for alias in node.names)
            statement = f"{indent}from {'.' * node.level}{node.module or ''} import "
            comment = f"  # {found.pop()}\n"
            is_short = len(statement + aliases) <= _WIDTH
            written = f"{aliases}{comment}" if is_short else f"({comment}{indent}{aliases}\n{indent})\n"
            lines[rows.start : rows.stop] = [statement + written, *[""] * (len(rows) - 1)]
    return "".join(lines)


def find_span(text: str, node: ast.stmt) -> tuple[int, int]:
    """Return the positions of a statement in a text; the syntax tree counts columns in bytes."""
    lines = text.splitlines(keepends=True)

    def find(line: int, column: int) -> int:
        before = lines[line - 1].encode()[:column].decode()
        return sum(map(len, lines[: line - 1])) + len(before)

    return find(node.lineno, node.col_offset), find(node.end_lineno or 0, node.end_col_offset or 0)


def _find_comments(statement: str) -> Iterator[str]:
    tokens = tokenize.generate_tokens(io.StringIO(statement).readline)
    return (token.string for token in tokens if token.type == tokenize.COMMENT)


def _rewrite_import(node: ast.Import, names: Names) -> list[str] | None:
    """Return the statements for an `import a.b`; None if it stays as it is."""
    aliases = []
    for alias in node.names:
        name = alias.name
        if name.startswith(f"{ROOT}."):
            name = names.find_dotted(name.removeprefix(f"{ROOT}."))
        aliases.append(f"{name} as {alias.asname}" if alias.asname else name)
    old = [f"{alias.name} as {alias.asname}" if alias.asname else alias.name for alias in node.names]
    return None if aliases == old else [f"import {', '.join(aliases)}"]


def _rewrite_from(node: ast.ImportFrom, names: Names, *, importing: str, module: Module) -> list[str] | None:
    """Return the statements for a `from a import b`; None if it stays as it is."""
    source = find_source(node, module)
    if source is None or source not in names.tree.modules:
        return None
    found = []
    for alias in node.names:
        imported = names.find_imported(source, alias.name, importing=importing)
        if imported is None:
            return None
        found.append((imported, alias.asname or alias.name))
    written = f"{ROOT}.{source}" if source != ROOT else ROOT
    old = [(Imported(written, alias.name), alias.asname or alias.name) for alias in node.names]
    return None if found == old and not node.level else build_statements(found, names, importing=importing)


def build_statements(found: Iterable[tuple[Imported, str]], names: Names, *, importing: str) -> list[str]:
    """Return the statements that import names, without those of the importing module itself."""
    sources: dict[str, list[str]] = {}
    for imported, bound in found:
        if imported.source != importing or f"{imported.source}.{imported.name}" in names.modules:
            # A renamed one is alone, as the import sorter would have it; it would keep one of the comments only.
            renamed = bound if bound != imported.name else ""
            sources.setdefault(f"{imported.source} {renamed}", []).append(build_alias(imported.name, bound))
    return [f"from {source.split()[0]} import {', '.join(aliases)}" for source, aliases in sources.items()]
