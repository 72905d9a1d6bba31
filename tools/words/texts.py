"""The texts of the repository by kind: help, errors, docstrings, comments, names, other strings, documents."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from pathlib import Path


class TextKind(StrEnum):
    """Who reads a text, and where."""

    HELP = "help"
    ERRORS = "errors"
    TEXTS = "texts"
    DOCSTRINGS = "docstrings"
    COMMENTS = "comments"
    NAMES = "names"
    DOCS = "docs"


@dataclass(frozen=True, slots=True)
class Text:
    """One text as it is in a file; `line` is where it begins."""

    path: str
    line: int
    kind: TextKind
    text: str


_HELP_KEYWORDS = {"help", "short_help", "epilog", "metavar"}
_ERROR_KEYWORDS = {"hint", "cause"}
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]+`|<!--.*?-->|\]\([^)]*\)", re.DOTALL | re.MULTILINE)


def read_texts(root: Path) -> Iterator[Text]:
    """Read all texts of a repository: `src`, and the Markdown files outside of the tests."""
    for path in sorted((root / "src").rglob("*.py")):
        yield from parse_source(str(path.relative_to(root)), path.read_text(encoding="utf-8"))
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md"):
        for path in sorted(root.glob(pattern)):
            yield parse_page(str(path.relative_to(root)), path.read_text(encoding="utf-8"))


def parse_page(path: str, text: str) -> Text:
    """Return a page without its code, which quotes what the program prints, and without link targets."""
    # As many lines as before, so that the line of a word is right.
    return Text(path, 1, TextKind.DOCS, _CODE.sub(lambda match: "`" + "\n" * match[0].count("\n"), text))


def parse_source(path: str, source: str) -> Iterator[Text]:
    """Return the texts of a Python module."""
    stem = Path(path).stem
    yield Text(path, 1, TextKind.NAMES, split_name(Path(path).parent.name if stem == "__init__" else stem))
    tree = ast.parse(source)
    yield from _Collector(path).collect(tree)
    yield from _parse_comments(path, source)


def split_name(name: str) -> str:
    """Split an identifier into words: `way_back` and `WayBack` become `way back`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).replace("_", " ").strip().lower()


def _parse_comments(path: str, source: str) -> Iterator[Text]:
    """Join the comments of adjacent lines, because a phrase may go over the end of a line."""
    found = [
        (token.start[0], token.start[1], token.string.lstrip("#! ").rstrip(), token.line.lstrip().startswith("#"))
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    ]
    blocks: list[list[tuple[int, int, str, bool]]] = [found[:1]] if found else []
    for before, comment in pairwise(found):
        if comment[0] == before[0] + 1 and comment[1] == before[1] and comment[3]:
            blocks[-1].append(comment)
        else:
            blocks.append([comment])
    for block in blocks:
        yield Text(path, block[0][0], TextKind.COMMENTS, "\n".join(comment[2] for comment in block))


class _Collector(ast.NodeVisitor):
    """Strings and names of one module, each string once, with the kind of the innermost place that has one."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._kind = TextKind.TEXTS
        self._texts: list[Text] = []
        self._docstrings: dict[int, TextKind] = {}

    def collect(self, tree: ast.Module) -> list[Text]:
        self.visit(tree)
        return self._texts

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            self._add(node.lineno, TextKind.NAMES, split_name(node.name))
        if isinstance(node, _DOCUMENTED):
            self._find_docstrings(node)
        super().visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        # A string alone is a docstring: of the module, the class, the function, or the assignment before it.
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            kind = self._docstrings.get(id(node), TextKind.DOCSTRINGS)
            self._add(node.lineno, kind, node.value.value)
        else:
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self._add(node.lineno, self._kind, node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
        self._add(node.lineno, self._kind, "".join(str(part) for part in parts))
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.visit(part.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._visit_as(TextKind.ERRORS, node)

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called.endswith("Error"):
            self._visit_as(TextKind.ERRORS, node)
        else:
            self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg in _HELP_KEYWORDS:
            self._visit_as(TextKind.HELP, node)
        elif node.arg in _ERROR_KEYWORDS:
            self._visit_as(TextKind.ERRORS, node)
        else:
            self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        # The root command has the summaries of all groups in a mapping, because it doesn't import them.
        names = {target.id for target in node.targets if isinstance(target, ast.Name)}
        if names & {"COMMANDS"} and "/cli/" in self._path:
            self._visit_as(TextKind.HELP, node)
        else:
            self.generic_visit(node)

    def _visit_as(self, kind: TextKind, node: ast.AST) -> None:
        before, self._kind = self._kind, kind
        self.generic_visit(node)
        self._kind = before

    def _find_docstrings(self, node: _DOCUMENTED) -> None:
        """Click prints the docstring of a command as its help."""
        decorators = getattr(node, "decorator_list", [])
        is_command = any(re.search(r"\b(command|group)\b", ast.unparse(one)) for one in decorators)
        if is_command and node.body:
            self._docstrings[id(node.body[0])] = TextKind.HELP

    def _add(self, line: int, kind: TextKind, text: str) -> None:
        self._texts.append(Text(self._path, line, kind, text))
