"""README.ko.md: the English README with the translations of its catalog."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping

from markdown_it import MarkdownIt

from tools.korean.messages import needs_translation

NOTE = "<!-- Built from README.md and its catalog by `python -m tools.korean update`. -->\n"
# The message with the links between the files is the same in both languages, and not on the site.
LINK = "(README.ko.md)"
WIDTH = 120
# Words that may not be separated by a line break: code spans, and links with their texts.
_WORD = re.compile(r"(?:!?\[[^\]]*\]\([^)\s]*\)|`[^`]*`|\S)+")
# A line that begins with one of these would be another block.
_BLOCK = re.compile(r"(?:[-+*>|]|#+|\d+[.)])(?:\s|$)|<|```")


def build_readme(english: str, translations: Mapping[str, str]) -> str:
    """Replace each message by its translation. Code, HTML and the order of all parts stay as they are.

    Raises:
        KeyError: a message has no translation.
    """
    lines = english.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    parts, done = [], 0
    for token in MarkdownIt("commonmark").enable("table").parse(english):
        if token.type != "inline" or token.map is None:
            continue
        message = " ".join(token.content.splitlines()).strip()
        if not message:
            continue
        first, last = max(done, starts[token.map[0]]), starts[token.map[1]]
        found = re.compile(r"\s+".join(map(re.escape, token.content.split()))).search(english, first, last)
        if found is None:
            raise ValueError(f"not found in README.md: {message}")
        kept = LINK in message or not needs_translation(message)
        translation = message if kept else translations[message]
        parts += [english[done : found.start()], _wrap(translation, english[: found.start()], lines[token.map[0]])]
        done = found.end()
    return NOTE + "".join(parts) + english[done:]


def _wrap(text: str, before: str, line: str) -> str:
    """Break a translation into lines that continue with the indentation of its block."""
    start = before.rpartition("\n")[2]
    if line.lstrip().startswith(("|", "#")):
        return text
    indent = " " * len(start)
    result: list[str] = []
    length = _count_columns(start)
    for word in _WORD.findall(text):
        columns = _count_columns(word)
        if result and length + 1 + columns > WIDTH and not _BLOCK.match(word):
            result.append(f"\n{indent}{word}")
            length = len(indent) + columns
        else:
            result.append(f" {word}" if result else word)
            length += columns + 1
    return "".join(result)


def _count_columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)
