"""Numbers, times and maps as people write them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache

from seamark.core.offsets import OffsetValue
from seamark.core.readings import Severity
from seamark.report.text import Style

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_MONTH = 30 * _DAY
_YEAR = 365 * _DAY
_KIBI = 1024
_FIRST_TIME, _LAST_TIME = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
# Enough to recognise what is left out; the number says the rest.
_SHOWN_NAMES = 5

_NUMBER = re.compile(r"[+-]?(?:[0-9]+|[0-9]{1,3}(?:,[0-9]{3})+)")
_PLAIN_WORD = re.compile(r"[^\s,\"'{}\[\]]+")
_LOOKS_TYPED = re.compile(r"[-+]?[\d.][\d._eE+-]*|true|false|null|none", re.IGNORECASE)


def render_number(number: int) -> str:
    """Format a whole number in groups of three: `8,412,003`."""
    return f"{number:,}"


def parse_number(text: str) -> int:
    """Parse a whole number with or without the commas of `render_number`.

    Raises:
        ValueError: It is not one. `1,2` may be a list or a decimal fraction, so that only groups of three are accepted.
    """
    found = text.strip()
    if _NUMBER.fullmatch(found) is None:
        raise ValueError(f"{text!r} is not a whole number")
    return int(found.replace(",", ""))


def render_count(number: int, noun: str, plural: str = "") -> str:
    """A number and its noun: `1 task`, `3 tasks`."""
    word = noun if number == 1 else plural or f"{noun}s"
    return f"{render_number(number)} {word}"


def render_names(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    shown = ", ".join(names[:_SHOWN_NAMES])
    return shown if len(names) <= _SHOWN_NAMES else f"{shown} and {render_number(len(names) - _SHOWN_NAMES)} more"


def render_bytes(number: int) -> str:
    """A size in its largest unit: `512 B`, `3.2 GiB`."""
    size = float(number)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < _KIBI or unit == "TiB":
            break
        size /= _KIBI
    return f"{number} B" if unit == "B" else f"{size:.1f} {unit}"


def build_time(milliseconds: float) -> datetime:
    """Return the time for milliseconds since the epoch, as close to it as Python's calendar reaches.

    The time of a record is any 64-bit integer that its producer set, and Python's calendar ends with the year 9999.
    """
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError):
        return _LAST_TIME if milliseconds > 0 else _FIRST_TIME


def render_time(moment: datetime) -> str:
    """A moment in UTC, ISO 8601, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def render_duration(seconds: float) -> str:
    """A length of time in its largest unit: `4 s`, `12 min`, `3 months`."""
    length = abs(seconds)
    if length < 1:
        return f"{length * 1000:.0f} ms"
    for limit, size, unit in (
        (_MINUTE, 1, "s"),
        (_HOUR, _MINUTE, "min"),
        (2 * _DAY, _HOUR, "h"),
        (2 * _MONTH, _DAY, "d"),
        (2 * _YEAR, _MONTH, "months"),
    ):
        if length < limit:
            return f"{int(length // size)} {unit}"
    return f"{int(length // _YEAR)} years"


def render_ago(seconds: float) -> str:
    """How long ago something was: `4 s ago`; a moment ahead of our clock is `in 4 s`."""
    if abs(seconds) < 1:
        return "now"
    return f"{render_duration(seconds)} ago" if seconds > 0 else f"in {render_duration(seconds)}"


def render_map(values: Mapping[str, OffsetValue] | None, times: Mapping[str, datetime] | None = None) -> str:
    """A partition or an offset on one line: `seq 8,412,003, logged_at "12:04"`.

    A text that could be taken for a number, or that holds blanks, stands in quotes: `5` and `"5"`
    are different offsets for Connect. Fields in `times` have that time after their value:
    `timestamp 1,794,657,871,817 (2026-11-14T12:04:31Z)`.
    """
    if values is None:
        return "nothing"
    if not values:
        return "{}"
    if not times:
        return ", ".join([f"{key} {_render_value(value)}" for key, value in values.items()])
    shown = {key: f" ({render_time(time)})" for key, time in times.items()}
    return ", ".join(f"{key} {_render_value(value)}{shown.get(key, '')}" for key, value in values.items())


def _render_value(value: OffsetValue) -> str:
    if isinstance(value, str):
        return _render_text(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return json.dumps(value, ensure_ascii=False)


# The names of databases and tables, and the times of a bulk load, occur in many rows.
@lru_cache(maxsize=4096)
def _render_text(value: str) -> str:
    if _PLAIN_WORD.fullmatch(value) and not _LOOKS_TYPED.fullmatch(value):
        return value
    return json.dumps(value, ensure_ascii=False)


_SEVERITY = {
    Severity.ERROR: ("✗", Style.BAD),
    Severity.WARNING: ("▲", Style.WARN),
    Severity.INFO: ("i", Style.PLAIN),
    Severity.OK: ("✓", Style.GOOD),
}


def render_severity(severity: Severity) -> str:
    """Symbol and word of a finding: `▲ WARNING`."""
    return f"{_SEVERITY[severity][0]} {severity.upper()}"


def style_severity(severity: Severity) -> Style:
    """The style that goes with the word."""
    return _SEVERITY[severity][1]
