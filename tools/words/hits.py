"""Where the words of `words.yml` occur."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from ruamel.yaml import YAML

from tools.words.texts import Text, TextKind

MOST_EXCEPTIONS = 30
_PACKAGE = re.compile(r"src/seamark/(\w+?)(?:\.py|/)")


@dataclass(frozen=True, slots=True)
class Hit:
    """One occurrence of a word to avoid."""

    path: str
    line: int
    kind: TextKind
    found: str
    word: str

    @property
    def package(self) -> str:
        """The package below `src/seamark`, or the folder; pages at the top count as `docs`."""
        match = _PACKAGE.match(self.path)
        if match:
            return "seamark" if match[1] == "__init__" else match[1]
        top = self.path.split("/")[0]
        return "docs" if top.endswith(".md") else top


@dataclass(frozen=True, slots=True)
class WordList:
    """The words to avoid: the pattern of each, and what to write instead."""

    patterns: Mapping[str, re.Pattern[str]]
    advice: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ExemptWord:
    """A word that files may contain, and why."""

    path: str
    word: str
    reason: str


def read_words(path: Path) -> WordList:
    """Read a substitution rule of Vale."""
    swap = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))["swap"]
    patterns = {word: re.compile(rf"\b(?:{word})\b", re.IGNORECASE) for word in swap}
    return WordList(patterns, swap)


def read_exceptions(path: Path) -> tuple[ExemptWord, ...]:
    """Read the exceptions: a pattern of paths, a word, and the reason, separated by `|`.

    Raises:
        ValueError: a line has another form, or there are too many lines.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    if len(lines) > MOST_EXCEPTIONS:
        raise ValueError(f"{path.name} has {len(lines)} lines, more than {MOST_EXCEPTIONS}")
    found = []
    for number, line in enumerate(lines, start=1):
        if line.startswith("#"):
            continue
        parts = [part.strip() for part in line.split("|")]
        if len(parts) != 3 or not all(parts):
            raise ValueError(f"{path.name}, line {number}: expected PATH | WORD | REASON")
        found.append(ExemptWord(*parts))
    return tuple(found)


def find_hits(texts: Iterable[Text], words: WordList) -> Iterator[Hit]:
    """Find the words in texts, over the ends of lines too."""
    # Few texts have a hit: one search for all words comes first.
    anything = re.compile("|".join(pattern.pattern for pattern in words.patterns.values()), re.IGNORECASE)
    for text in texts:
        if not anything.search(" ".join(text.text.split())):
            continue
        flat, lines = _flatten(text.text)
        for word, pattern in words.patterns.items():
            for match in pattern.finditer(flat):
                yield Hit(text.path, text.line + lines[match.start()], text.kind, match[0], word)


def is_exempt(hit: Hit, exceptions: Sequence[ExemptWord]) -> bool:
    """Whether one of the exceptions is for the word of a hit and for its file."""
    return any(one.word == hit.word and fnmatch(hit.path, one.path) for one in exceptions)


def count_hits(hits: Iterable[Hit]) -> dict[str, Counter[TextKind]]:
    """Count hits by package and kind."""
    counts: dict[str, Counter[TextKind]] = {}
    for hit in hits:
        counts.setdefault(hit.package, Counter())[hit.kind] += 1
    return dict(sorted(counts.items()))


def _flatten(text: str) -> tuple[str, list[int]]:
    """Join the lines of a text by single blanks, and return for each character on which line it was."""
    flat: list[str] = []
    lines: list[int] = []
    line = 0
    for character in text:
        is_blank = character.isspace()
        if not (is_blank and flat and flat[-1] == " "):
            flat.append(" " if is_blank else character)
            lines.append(line)
        line += character == "\n"
    return "".join(flat), [*lines, line]
