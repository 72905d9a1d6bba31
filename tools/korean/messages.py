"""One message: what a translation must have in common with the English text, and how it must be written."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

GLOSSARY = Path(__file__).parent / "glossary.toml"
_MARKDOWN = MarkdownIt("commonmark")
# Numbers, words in capitals such as RUNNING or NAME, and settings such as acks=all, which stay as they are.
_CONSTANT = re.compile(r"(?<![\w.])(?:\d[\d,.:/-]*\d|\d|[A-Z]{2,}[A-Z0-9-]*|KIP-\d+)(?![A-Za-z0-9_])")
# A sentence in another style than the formal one, which ends with -니다 or -시오.
_STYLE = re.compile(r"[가-힣]*(?:(?<!니)다|[아어에여해세]요|죠)\.(?=\s|$)")
# Names such as "Apache License" or "kafka-topics" stay in English, sentences don't.
_WORD = re.compile(r"(?<!\S)\S*[A-Za-z]{2}\S*")
MOST_ENGLISH_WORDS = 2


@dataclass(frozen=True, slots=True)
class MessageParts:
    """What a message consists of: its prose, and the parts that translations must keep."""

    prose: str
    kept: Counter[str]
    marks: Counter[str]


@dataclass(frozen=True, slots=True)
class Term:
    """An English term with its only Korean translation."""

    name: str
    english: re.Pattern[str]
    korean: str
    avoid: tuple[str, ...]


def split_message(text: str) -> MessageParts:
    """Split a message into prose on one hand, and code spans, link targets, images and HTML on the other hand."""
    prose: list[str] = []
    kept: Counter[str] = Counter()
    marks: Counter[str] = Counter()
    for token in _MARKDOWN.parseInline(text)[0].children or []:
        if token.type == "text":
            prose.append(token.content)
        elif token.type == "code_inline":
            kept[f"`{token.content}`"] += 1
            prose.append(" ` ")
        elif token.type == "html_inline":
            kept[token.content] += 1
        elif token.type == "link_open":
            kept[f"link to {token.attrGet('href')}"] += 1
        elif token.type == "image":
            kept[f"image {token.attrGet('src')}"] += 1
        elif token.type in ("strong_open", "em_open"):
            marks[token.markup] += 1
    return MessageParts("".join(prose), kept, marks)


def needs_translation(text: str) -> bool:
    """Return whether a message has prose: a table cell with nothing but code stays as it is."""
    return re.search(r"[^\W\d_]", split_message(text).prose) is not None


def read_glossary(path: Path = GLOSSARY) -> tuple[Term, ...]:
    """Read the glossary, the longest terms first: `consumer group` is not also a `consumer`."""
    entries = tomllib.loads(path.read_text(encoding="utf-8"))
    terms = [
        Term(english, re.compile(rf"(?<![\w-])(?:{english})(?![\w-])", re.IGNORECASE), entry[0], tuple(entry[1:]))
        for english, entry in entries["terms"].items()
    ]
    return tuple(sorted(terms, key=lambda term: len(term.name), reverse=True))


def find_problems(english: str, korean: str, glossary: Sequence[Term]) -> list[str]:
    """Compare a translation with the English message, and return what is wrong with it."""
    if not needs_translation(english):
        return [] if korean == english else ["must be the same as the English text, which has no prose"]
    theirs, ours = split_message(english), split_message(korean)
    if len(_WORD.findall(theirs.prose)) > MOST_ENGLISH_WORDS and not re.search("[가-힣]", ours.prose):
        return ["isn't Korean"]
    lines = [f"missing: {part}" for part in theirs.kept - ours.kept]
    lines += [f"not in the English text: {part}" for part in ours.kept - theirs.kept]
    if theirs.marks != ours.marks or "**" in ours.prose:
        lines.append("other parts are set in bold or italics than in the English text, or the marks don't close")
    constants = set(_CONSTANT.findall(ours.prose))
    lines += [f"missing: {part}" for part in _CONSTANT.findall(theirs.prose) if part not in constants]
    lines += _find_terms(theirs.prose, ours.prose, glossary)
    lines += [f"not in the formal style: {match[0]}" for match in _STYLE.finditer(ours.prose)]
    return lines


def _find_terms(english: str, korean: str, glossary: Sequence[Term]) -> list[str]:
    lines = []
    for term in glossary:
        english, found = term.english.subn(" ", english)
        if found and term.korean not in korean:
            lines.append(f"{term.name} must be translated as {term.korean}")
        lines += [f"write {term.korean} instead of {word}" for word in term.avoid if word in korean]
    return lines
