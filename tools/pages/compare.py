"""Compare what a page shows with what a command printed."""

from __future__ import annotations

import re
from collections.abc import Iterable

CHANGE = r"01[0-9A-HJKMNP-TV-Z]{24}"
# What differs in each run, wherever it is.
VARIES = (
    (CHANGE, f"({CHANGE})"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? UTC", r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? UTC"),
    (r"done in [\d ]+ (?:m?s|min)\b", r"done in [\d ]+ (?:m?s|min)\b"),
    (r"…", ".*"),
    (r"\s+", r"\s+"),
)
NUMBER = (r"\d[\d,.]*", r"\d[\d,.]*")


def build_pattern(line: str, *, exact: bool = False) -> re.Pattern[str]:
    """Return the regular expression of what a line of a page allows; any number for a number unless `exact`."""
    shapes = VARIES if exact else (*VARIES, NUMBER)
    varies = re.compile("|".join(f"(?P<v{number}>{shape})" for number, (shape, _) in enumerate(shapes)))
    pattern, end = "", 0
    for found in varies.finditer(line):
        pattern += re.escape(line[end : found.start()]) + shapes[int((found.lastgroup or "")[1:])][1]
        end = found.end()
    return re.compile(pattern + re.escape(line[end:]))


def compare(shown: Iterable[str], printed: str, *, exact: bool = False) -> str | None:
    """Return the first line of the page that was not printed after the lines before it, or None."""
    return match(shown, printed, exact=exact)[0]


def match(shown: Iterable[str], printed: str, *, exact: bool = False) -> tuple[str | None, dict[str, str]]:
    """Return the first line that was not printed, and the change IDs of the page with those that were printed."""
    left = iter([line.strip() for line in printed.splitlines()])
    bound: dict[str, str] = {}
    for line in shown:
        pattern = build_pattern(line.strip(), exact=exact)
        found = next((match for one in left if (match := pattern.fullmatch(one))), None)
        if found is None:
            return line, bound
        bound |= zip(re.findall(CHANGE, line), found.groups(), strict=True)
    return None, bound
