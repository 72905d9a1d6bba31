"""Read a page: its fenced blocks, and the comments that say how they are run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2]
# The folders whose command blocks are all run.
FOLDERS = ("docs/start", "docs/tutorials", "docs/how-to", "docs/runbooks")
COMMANDS = frozenset({"console", "sh", "bash", "shell"})
# For the whole page, for the next block, and steps of their own.
OF_PAGE = frozenset({"servers", "context", "test"})
OF_BLOCK = frozenset({"skip", "exit", "stop", "exact", "output", "text", "with", "file", "once"})
STEPS = frozenset({"shell", "setup", "replace"})
_FENCE = re.compile(r"^( *)(`{3,}|~{3,})(?:\{code-block\} *)?(\S*).*$")
_OPEN = re.compile(r"^ *<!-- run: *(.*)$")


@dataclass(frozen=True, slots=True)
class Directive:
    """One comment `<!-- run: NAME VALUE -->`."""

    line: int
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block, with the directives before it."""

    line: int
    kind: str
    text: str
    directives: tuple[Directive, ...] = ()

    @property
    def is_command(self) -> bool:
        """Return whether the block has commands."""
        return self.kind in COMMANDS or (not self.kind and self.text.startswith("$ "))

    @property
    def is_output(self) -> bool:
        """Return whether the block shows what the command before it prints."""
        return self.find("output") is not None or (self.kind == "text" and self.find("text") is None)

    @property
    def lines(self) -> tuple[str, ...]:
        """Return the lines that have to be printed."""
        return tuple(line for line in self.text.splitlines() if line.strip(" …"))

    def find(self, name: str) -> str | None:
        """Return the value of a directive, or None."""
        return next((one.value for one in self.directives if one.name == name), None)


@dataclass(frozen=True, slots=True)
class Page:
    """A page: what it needs, and its blocks and steps in order."""

    path: str
    servers: str | None
    context: str
    test: str | None
    parts: tuple[Block | Directive, ...]

    @property
    def commands(self) -> tuple[Block, ...]:
        """Return the blocks with commands."""
        return tuple(part for part in self.parts if isinstance(part, Block) and part.is_command)

    @property
    def skipped(self) -> tuple[Block, ...]:
        """Return the command blocks that can't be run, each with its reason."""
        return tuple(block for block in self.commands if block.find("skip") is not None)


class PageError(Exception):
    """A comment that can't be understood."""


def list_pages() -> list[str]:
    """Return the paths of all pages whose commands are run, relative to the repository."""
    return sorted(str(path.relative_to(ROOT)) for folder in FOLDERS for path in (ROOT / folder).glob("**/*.md"))


def read_page(path: str) -> Page:
    """Read a page of the repository."""
    return parse_page(path, (ROOT / path).read_text(encoding="utf-8"))


def parse_page(path: str, text: str) -> Page:
    """Return the blocks and steps of a page.

    Raises:
        PageError: A comment is unknown, or has no block.
    """
    of_page: dict[str, str] = {}
    parts: list[Block | Directive] = []
    pending: list[Directive] = []
    for found in _scan(path, text):
        if isinstance(found, Block):
            parts.append(Block(found.line, found.kind, found.text, tuple(pending)))
            pending = []
        elif found.name in OF_PAGE:
            if found.name in of_page:
                raise PageError(f"{path}:{found.line}: a second 'run: {found.name}'")
            of_page[found.name] = found.value
        elif found.name in STEPS:
            parts.append(found)
        elif found.name in OF_BLOCK:
            pending.append(found)
        else:
            raise PageError(f"{path}:{found.line}: unknown comment 'run: {found.name}'")
    if pending:
        raise PageError(f"{path}:{pending[0].line}: no block after 'run: {pending[0].name}'")
    return Page(path, of_page.get("servers"), of_page.get("context", "dev"), of_page.get("test"), tuple(parts))


def _scan(path: str, text: str) -> Iterator[Block | Directive]:
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        if fence := _FENCE.match(line):
            indent, marks, kind = fence.groups()
            body = []
            for _, inner in lines:
                if re.fullmatch(rf" *{re.escape(marks[0])}{{{len(marks)},}} *", inner):
                    break
                body.append(inner)
            # The block of a list entry is indented, its lines with it.
            yield Block(number, kind, dedent("\n".join(body) + "\n") if indent else "\n".join(body) + "\n")
        elif comment := _OPEN.match(line):
            body = [comment[1]]
            while not body[-1].rstrip().endswith("-->"):
                following = next(lines, None)
                if following is None:
                    raise PageError(f"{path}:{number}: the comment has no end")
                body.append(following[1])
            content = dedent_rest("\n".join(body).rstrip().removesuffix("-->"))
            name, _, value = content.partition(" ") if " " in content.split("\n")[0] else content.partition("\n")
            yield Directive(number, name.strip(), value.strip())


def dedent_rest(text: str) -> str:
    """Remove the common indent of all lines but the first."""
    first, _, rest = text.partition("\n")
    return f"{first}\n{dedent(rest)}" if rest else first


@dataclass(frozen=True, slots=True)
class Command:
    """One command, and the lines of output that the page shows."""

    text: str
    shown: tuple[str, ...] = ()


def split_console(text: str) -> list[Command]:
    """Split a block with prompts: each `$ ` begins a command; a backslash or a here document continues it."""
    found = []
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        lines = part.rstrip("\n").split("\n")
        command = [lines.pop(0)]
        while lines and (command[-1].endswith("\\") or _is_open("\n".join(command))):
            command.append(lines.pop(0))
        shown = tuple(line for line in lines if line.strip(" …"))
        found.append(Command("\n".join(command), shown))
    return found


def _is_open(command: str) -> bool:
    here = re.search(r"<<-?\s*['\"]?(\w+)['\"]?", command)
    return here is not None and command.rsplit("\n", maxsplit=1)[-1].strip() != here[1]
