"""Looking at the two maps of an offset: which fields, of which type."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from seamark.core.offsets import OffsetMap, OffsetValue
from seamark.core.readings import Finding, Severity

CHECK = "offset-meaning"
# What Connect reads as a Long; a larger number wraps without a word.
LOWEST, HIGHEST = -(2**63), 2**63 - 1


def is_integer(value: object) -> bool:
    """Whether Java would read the value as a Long. True and 1.0 are none, though Python takes them for one."""
    return isinstance(value, int) and not isinstance(value, bool) and LOWEST <= value <= HIGHEST


def read_integer(fields: OffsetMap | None, key: str) -> int | None:
    """The integer of that name, or None."""
    value = None if fields is None else fields.get(key)
    return value if isinstance(value, int) and is_integer(value) else None


def read_text(fields: OffsetMap, key: str) -> str | None:
    """The text of that name, or None."""
    value = fields.get(key)
    return value if isinstance(value, str) else None


def show(value: OffsetValue) -> str:
    """A value in words: as in JSON, but a text without its quotation marks."""
    words: Mapping[object, str] = {None: "null", True: "true", False: "false"}
    return words[value] if value is None or isinstance(value, bool) else str(value)


def show_fields(fields: OffsetMap) -> str:
    """All fields in their order: `a 1, b 2`."""
    return ", ".join(f"{key} {show(value)}" for key, value in fields.items()) or "(no fields)"


@dataclass(slots=True)
class Notes:
    """Collects what is found of one offset."""

    subject: str
    found: list[Finding] = field(default_factory=list)

    def error(self, message: str, fix: str = "") -> None:
        """The task would fail, or never read this offset."""
        self.found.append(Finding(CHECK, Severity.ERROR, self.subject, message, fix))

    def warn(self, message: str, fix: str = "") -> None:
        """It works, and is likely not what somebody wanted."""
        self.found.append(Finding(CHECK, Severity.WARNING, self.subject, message, fix))

    def tell(self, message: str, fix: str = "") -> None:
        """Worth knowing."""
        self.found.append(Finding(CHECK, Severity.INFO, self.subject, message, fix))

    def check_shape(self, partition: OffsetMap, wanted: Iterable[Collection[str]], example: str) -> bool:
        """Whether the partition has just the fields of one of the wanted shapes; else an error."""
        if any(set(partition) == set(shape) for shape in wanted):
            return True
        self.error(f"the partition has the fields {_list(partition)}", f"a partition looks like {example}")
        return False

    def check_integers(self, offset: OffsetMap, keys: Iterable[str]) -> None:
        """An error for each of the fields that is there and no integer."""
        for key in keys:
            value = offset.get(key)
            if value is not None and not is_integer(value):
                self.error(f"{key} must be an integer, and is {show(value)!r}", "write a JSON integer without a point")

    def check_known(self, offset: OffsetMap, known: Collection[str]) -> None:
        """A warning for fields that nobody reads."""
        if extra := [key for key in offset if key not in known]:
            self.warn(f"the connector does not read {_list(extra)}", "leave it out")

    def result(self) -> tuple[Finding, ...]:
        """What was found."""
        return tuple(self.found)


def _list(keys: Iterable[str]) -> str:
    return ", ".join(keys) or "(none)"


def split_list(text: str) -> tuple[str, ...]:
    """The items of a config value with commas."""
    return tuple(item.strip() for item in text.split(",") if item.strip())


def is_set(config: Mapping[str, str], key: str) -> bool:
    """Whether a config has a value for the key that is more than blanks."""
    return bool((config.get(key) or "").strip())
