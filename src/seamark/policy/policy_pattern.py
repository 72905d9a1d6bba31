"""The patterns of a policy, each compiled once."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import unquote

# A policy has some ten lists, a context some hundred clusters.
_COMPILED = 4096
# Drivers decode once, some twice; a third round is for those who hope that we don't.
_DECODINGS = 3
# Linux takes no longer one.
_LONGEST_PATH = 4096


@lru_cache(maxsize=_COMPILED)
def _compile(patterns: tuple[str, ...], *, star: str, flags: int) -> re.Pattern[str]:
    spelled = "|".join(f"(?:{_translate(pattern, star)})" for pattern in patterns)
    return re.compile(spelled or r"(?!)", re.DOTALL | flags)


def _translate(pattern: str, star: str) -> str:
    marks = {"**": ".*", "*": star, "?": star.rstrip("*") or "."}
    parts = re.split(r"(\*\*|\*|\?)", pattern)
    return "".join(marks.get(part, re.escape(part)) for part in parts)


def is_listed(text: str, patterns: tuple[str, ...]) -> bool:
    """Whether a text fits one of the patterns; `*` stands for anything. Capitals count, as they do in Java."""
    return _compile(patterns, star=".*", flags=0).fullmatch(text) is not None


def is_listed_path(path: str, patterns: tuple[str, ...]) -> bool:
    """Whether an absolute path fits one of the patterns; `*` stops at a slash, `**` does not.

    A path with `..` in it fits none: it leads somewhere else than it says. Nor does one that no system takes.
    """
    parts = path.split("/")
    if parts[0] or ".." in parts or "\\" in path or "\0" in path or len(path) > _LONGEST_PATH:
        return False
    clean = "/" + "/".join(part for part in parts if part not in {"", "."})
    return _compile(patterns, star="[^/]*", flags=0).fullmatch(clean) is not None


def is_listed_host(host: str, patterns: tuple[str, ...]) -> bool:
    """Whether a host fits one of the patterns, whatever its capitals."""
    return _compile(patterns, star=".*", flags=re.IGNORECASE).fullmatch(host) is not None


def decode(text: str) -> tuple[str, ...]:
    """The text, and what becomes of it when percent signs are decoded, as drivers and servers on the way do."""
    found = [text]
    while "%" in found[-1] and len(found) <= _DECODINGS:
        plain = unquote(found[-1])
        if plain == found[-1]:
            break
        found.append(plain)
    return tuple(found)
