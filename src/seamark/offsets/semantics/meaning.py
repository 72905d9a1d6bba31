"""What every connector family can say of its offsets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Protocol

from seamark.core.distance import Distance
from seamark.core.finding import Finding
from seamark.core.offset import OffsetMap
from seamark.core.offsets import Order
from seamark.offsets.semantics.consequences import Consequence


class Meaning(Protocol):
    """The meaning of one connector's offsets.

    A family is a class: `matches` says whether a connector belongs to it, and an instance is made for one connector. It
    asks nobody and changes nothing. What it is given was read from outside and may be anything: it never raises for
    that, but says so in `check`, and gives UNKNOWN elsewhere.
    """

    family: ClassVar[str]

    def __init__(self, connector_class: str, config: Mapping[str, str]) -> None:
        """The meaning for the connector with that config."""

    @classmethod
    def matches(cls, connector_class: str, config: Mapping[str, str]) -> bool:
        """Whether a connector is of this family."""
        ...

    def check(self, partition: OffsetMap, offset: OffsetMap | None) -> tuple[Finding, ...]:
        """What is wrong with an offset: ERROR where the task would fail or the offset is never read."""
        ...

    def compare(self, left: OffsetMap | None, right: OffsetMap | None) -> Order:
        """Where `left` lies, seen from `right`: BEFORE where it was held earlier. Both are of one partition."""
        ...

    def describe(self, partition: OffsetMap, offset: OffsetMap | None) -> tuple[str, str]:
        """Partition and offset, each in a few words."""
        ...

    def explain_rewind(self) -> Consequence:
        """What it does to the target if the position goes back."""
        ...

    def explain_skip(self) -> Consequence:
        """What it does to the target if the position goes ahead."""
        ...

    def build_distance(self, partition: OffsetMap, start: OffsetMap | None, end: OffsetMap | None) -> Distance:
        """The count of what lies between two positions, to be run by somebody else.

        `start` None is where the connector would begin without an offset, `end` None is what is there now.
        """
        ...
