"""Read and check the fields of partition and offset maps: their names and types."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from seamark.core.offsets import OffsetMap, OffsetValue
from seamark.core.readings import Finding, Severity
from seamark.errors import UsageError

CHECK = "offset-meaning"
# The range that Connect reads as a Long; a larger number overflows silently.
LOWEST, HIGHEST = -(2**63), 2**63 - 1


def is_integer(value: object) -> bool:
    """Return whether Java would read the value as a Long. True and 1.0 are excluded, although Python accepts them."""
    return isinstance(value, int) and not isinstance(value, bool) and LOWEST <= value <= HIGHEST


def read_integer(fields: OffsetMap | None, key: str) -> int | None:
    """Return the integer of that name, or None."""
    value = None if fields is None else fields.get(key)
    return value if isinstance(value, int) and is_integer(value) else None


def read_text(fields: OffsetMap, key: str) -> str | None:
    """Return the text of that name, or None."""
    value = fields.get(key)
    return value if isinstance(value, str) else None


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def build_point_in_time(count: int | None, *, per_second: int) -> datetime | None:
    """Return the time so many units after the epoch, to the microsecond; None if there is none, as for year 20000."""
    if count is None:
        return None
    try:
        return _EPOCH + timedelta(
            seconds=count // per_second, microseconds=count % per_second * 1_000_000 // per_second
        )
    except OverflowError:
        return None


def show(value: OffsetValue) -> str:
    """Format a value as in JSON, but a text without its quotation marks."""
    words: Mapping[object, str] = {None: "null", True: "true", False: "false"}
    return words[value] if value is None or isinstance(value, bool) else str(value)


def show_fields(fields: OffsetMap) -> str:
    """Format all fields in their order: `a 1, b 2`."""
    return ", ".join(f"{key} {show(value)}" for key, value in fields.items()) or "(no fields)"


@dataclass(slots=True)
class Notes:
    """Collects the findings about one offset."""

    subject: str
    found: list[Finding] = field(default_factory=list)

    def error(self, message: str, fix: str = "") -> None:
        """Add an error: the task would fail, or never read this offset."""
        self.found.append(Finding(CHECK, Severity.ERROR, self.subject, message, fix))

    def warn(self, message: str, fix: str = "") -> None:
        """Add a warning: it works, but is probably not intended."""
        self.found.append(Finding(CHECK, Severity.WARNING, self.subject, message, fix))

    def info(self, message: str, fix: str = "") -> None:
        """Add an informational finding."""
        self.found.append(Finding(CHECK, Severity.INFO, self.subject, message, fix))

    def check_shape(self, partition: OffsetMap, wanted: Iterable[Collection[str]], example: str) -> bool:
        """Return whether the partition has exactly the fields of one of the expected shapes; otherwise add an error."""
        if any(set(partition) == set(shape) for shape in wanted):
            return True
        self.error(f"the partition has the fields {_list(partition)}", f"expected {example}")
        return False

    def check_integers(self, offset: OffsetMap, keys: Iterable[str]) -> None:
        """Add an error for each of these fields that is present and not an integer."""
        for key in keys:
            value = offset.get(key)
            if value is not None and not is_integer(value):
                self.error(
                    f"{key} must be an integer, not {show(value)!r}", "write a JSON integer without a decimal point"
                )

    def check_known(self, offset: OffsetMap, known: Collection[str]) -> None:
        """Add a warning for fields that no connector reads."""
        if extra := [key for key in offset if key not in known]:
            self.warn(f"the connector does not read {_list(extra)}", "remove it")

    def result(self) -> tuple[Finding, ...]:
        """Return the findings."""
        return tuple(self.found)


def _list(keys: Iterable[str]) -> str:
    return ", ".join(keys) or "(none)"


def split_list(text: str) -> tuple[str, ...]:
    """Return the items of a comma-separated config value."""
    return tuple(item.strip() for item in text.split(",") if item.strip())


def is_set(config: Mapping[str, str], key: str) -> bool:
    """Return whether a config has a non-blank value for the key."""
    return bool((config.get(key) or "").strip())


def parse_map(text: str) -> OffsetMap:
    """Parse a partition or an offset from JSON."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UsageError(
            f"{text} is not a JSON map", hint='write a map such as {"position": 120}, in single quotes for the shell'
        )
    return found
