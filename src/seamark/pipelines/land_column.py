"""A column of a landing: its type in the database, and where in a record it comes from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from seamark.core import strict
from seamark.errors import UsageError

OUR_PREFIX = "seamark_"
KAFKA_FIELDS = ("topic", "partition", "offset", "timestamp")
_TYPE = re.compile(r"[a-z][a-z0-9_ ]*(\( *\d{1,4} *(, *\d{1,4} *)?\))?[a-z ]*(\[\])?", re.ASCII)
_NUMERIC = re.compile(r"^(decimal|dec)(?=\(|\[|$)")
_SPACES = (
    (re.compile(r" +"), " "),
    (re.compile(r" ?\( ?"), "("),
    (re.compile(r" ?, ?"), ", "),
    (re.compile(r" (?=[)\[])"), ""),
    # Behind its digits a type may have more words, as in timestamp(3) with time zone.
    (re.compile(r"\)(?=[a-z])"), ") "),
)
_NAME_BYTES = 63


class RecordPart(StrEnum):
    """Which part of a record."""

    VALUE = "value"
    KEY = "key"
    KAFKA = "kafka"


@dataclass(frozen=True, slots=True)
class LandColumn:
    """One column. `type` is PostgreSQL's own word for it, in one spelling.

    `source` is `value.a.b`, `key`, `key.id`, or `kafka.` with topic, partition, offset or timestamp; empty: the field
    of the value by the column's name.
    """

    name: str
    type: str
    source: str = ""

    def __post_init__(self) -> None:
        """Refuse what PostgreSQL could not have, and what would run as SQL."""
        if not self.name or "\0" in self.name or len(self.name.encode()) > _NAME_BYTES:
            raise UsageError(f"a column can't be named {self.name!r}", hint="1 to 63 bytes")
        if self.name.lstrip("_").startswith(OUR_PREFIX):
            raise UsageError(f"a column can't be named {self.name}", hint="names with seamark_ are taken")
        if not _TYPE.fullmatch(self.type):
            raise UsageError(f"the column {self.name} can't be of type {self.type!r}", hint="as in: numeric(12, 2)")
        object.__setattr__(self, "type", _spell(self.type))
        if self.place is RecordPart.KAFKA and (len(self.path) != 1 or self.path[0] not in KAFKA_FIELDS):
            raise UsageError(
                f"the column {self.name} can't come from {self.source}",
                hint=f"kafka. has {', '.join(KAFKA_FIELDS)}",
            )
        if self.place is RecordPart.VALUE and not all(self.path):
            raise UsageError(f"the column {self.name} can't come from {self.source!r}", hint="as in: value.a.b")

    @property
    def place(self) -> RecordPart:
        """Which part of the record it comes from."""
        head = self.source.partition(".")[0] or RecordPart.VALUE.value
        if head not in set(RecordPart):
            raise UsageError(
                f"the column {self.name} can't come from {self.source!r}", hint="value.…, key, key.… or kafka.…"
            )
        return RecordPart(head)

    @property
    def path(self) -> tuple[str, ...]:
        """The fields that lead to it. Empty: the whole key, as text."""
        if not self.source:
            return (self.name,)
        rest = self.source.partition(".")[2]
        if not rest:
            return () if self.place is RecordPart.KEY else ("",)
        return tuple(rest.split("."))

    def to_dict(self) -> dict[str, Any]:
        """The column as JSON takes it."""
        return {"name": self.name, "type": self.type, "source": self.source}

    @classmethod
    def from_dict(cls, data: object) -> LandColumn:
        """Read what `to_dict` gave."""
        fields = strict.read_object(data, keys=("name", "type", "source"), what="a column of a landing")
        return cls(**{name: strict.read_text(value, what="a column of a landing") for name, value in fields.items()})


def _spell(kind: str) -> str:
    """A type in the one spelling by which it is known, of those that PostgreSQL takes for the same."""
    kind = kind.strip()
    for pattern, spelled in _SPACES:
        kind = pattern.sub(spelled, kind)
    return _NUMERIC.sub("numeric", kind)
