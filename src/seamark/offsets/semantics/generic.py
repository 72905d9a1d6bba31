"""Connectors whose family nobody taught us: what can be said of any offset, and no more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from seamark.core.distance import Certainty, Distance, Unit
from seamark.core.finding import Finding
from seamark.core.offset import OffsetMap, spell_identity
from seamark.core.offsets import Order
from seamark.offsets.semantics.consequences import Consequence, Harm
from seamark.offsets.semantics.documented import DocumentedShape, find_shape
from seamark.offsets.semantics.fields import HIGHEST, LOWEST, Notes, show_fields


class GenericMeaning:
    """Any source. It knows the shapes that connectors document, and does not guess an order from them.

    A family of your own may inherit from it and say only what it knows better.
    """

    family: ClassVar[str] = "source"

    def __init__(self, connector_class: str, config: Mapping[str, str]) -> None:
        self.connector_class = connector_class
        self.config = config

    @classmethod
    def matches(cls, connector_class: str, config: Mapping[str, str]) -> bool:
        """Every connector."""
        del connector_class, config
        return True

    def check(self, partition: OffsetMap, offset: OffsetMap | None) -> tuple[Finding, ...]:
        """Only what Connect itself refuses, and what a documented shape forbids."""
        notes = Notes(self.describe_partition(partition))
        check_primitives(notes, partition)
        if offset is None:
            return notes.result()
        check_primitives(notes, offset)
        shape = self._find_shape(partition)
        if shape is not None:
            shape.check(notes, offset)
        return notes.result()

    def compare(self, left: OffsetMap | None, right: OffsetMap | None) -> Order:
        """EQUAL for the same offset; everything else would be a guess."""
        if left is None or right is None:
            return Order.EQUAL if left is right else Order.UNKNOWN
        return Order.EQUAL if spell_identity(left) == spell_identity(right) else Order.UNKNOWN

    def describe(self, partition: OffsetMap, offset: OffsetMap | None) -> tuple[str, str]:
        """Both as they are."""
        return self.describe_partition(partition), "nothing" if offset is None else show_fields(offset)

    def describe_partition(self, partition: OffsetMap) -> str:
        """The partition as it is; a documented shape adds whose it is."""
        shape = self._find_shape(partition)
        text = show_fields(partition)
        return f"{shape.owner}: {text}" if shape is not None else text

    def explain_rewind(self) -> Consequence:
        """A source sends again what it reads again."""
        return Consequence(Harm.DUPLICATES, "what it reads again will be in its topics twice")

    def explain_skip(self) -> Consequence:
        """A source does not send what it skips."""
        return Consequence(Harm.LOSS, "what is skipped never reaches its topics")

    def build_distance(self, partition: OffsetMap, start: OffsetMap | None, end: OffsetMap | None) -> Distance:
        """Nobody can tell."""
        del partition, start, end
        return Distance(
            Unit.RECORDS, None, Certainty.UNKNOWN, reason="seamark does not know what the offsets of this connector say"
        )

    def _find_shape(self, partition: OffsetMap) -> DocumentedShape | None:
        return find_shape(self.connector_class, partition)


def check_primitives(notes: Notes, fields: OffsetMap) -> None:
    """Connect takes texts, numbers, true, false and null, and no number beyond 64 bits."""
    for key, value in fields.items():
        if not isinstance(value, str | int | float | bool | None):
            notes.error(f"{key} holds a list or a map", "Connect takes only texts, numbers, true, false and null")
        elif isinstance(value, int) and not isinstance(value, bool) and not LOWEST <= value <= HIGHEST:
            notes.error(f"{key} is beyond 64 bits", "Connect would read another number without a word")
