"""Rows that a database refuses, found by halves."""

from __future__ import annotations

from collections.abc import Callable, Iterator


def find_refused(count: int, take: Callable[[int, int], str | None]) -> Iterator[tuple[int, str]]:
    """The places of the rows that are refused, each with why; all others are taken.

    `take` takes the rows from one place to before another, all or none, and gives why it refuses them.
    """
    return _find(0, count, take) if count else iter(())


def _find(first: int, end: int, take: Callable[[int, int], str | None]) -> Iterator[tuple[int, str]]:
    reason = take(first, end)
    if reason is None:
        return
    if end - first == 1:
        yield first, reason
        return
    middle = (first + end) // 2
    yield from _find(first, middle, take)
    yield from _find(middle, end, take)
