"""A read over several places: what came, and what did not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from seamark.errors import PartialError, SeamarkError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reading(Generic[T]):
    """What was read, and by name what could not be: never a silently short list."""

    items: tuple[T, ...] = ()
    failures: Mapping[str, SeamarkError] = field(default_factory=dict)

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    @property
    def is_complete(self) -> bool:
        """Whether every place answered."""
        return not self.failures

    def require_complete(self, *, what: str) -> tuple[T, ...]:
        """The items, or a PartialError that names every place that did not answer."""
        if self.failures:
            raise PartialError(
                f"{what} could not be read everywhere: {', '.join(self.failures)} did not answer",
                failures=self.failures,
                hint="seamark doctor says what is wrong there",
            )
        return self.items
