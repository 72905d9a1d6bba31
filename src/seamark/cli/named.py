"""Names and globs for a list of topics or groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Protocol, TypeVar

from seamark.cli.answer import Answer, choose_exit_code
from seamark.errors import NotFoundError

_GLOB = frozenset("*?[")


class Named(Protocol):
    """Anything with a name."""

    @property
    def name(self) -> str:
        """Its name."""


T = TypeVar("T", bound=Named)


def pick_named(items: Sequence[T], names: Sequence[str]) -> tuple[T, ...]:
    """Those that fit one of the names or globs; all of them without names."""
    return tuple(item for item in items if not names or any(fnmatchcase(item.name, name) for name in names))


def add_missing(answer: Answer, items: Sequence[Named], names: Sequence[str], *, noun: str) -> Answer:
    """The answer with an error for each plain name that is nowhere: most likely it is misspelt."""
    known = {item.name for item in items}
    absent = tuple(
        NotFoundError(
            f"there is no {noun} {name}", hint=f"seamark {noun}s list shows all of them", context={noun: name}
        )
        for name in names
        if name not in known and not _GLOB & set(name)
    )
    if not absent:
        return answer
    code = answer.exit_code or choose_exit_code(absent, all_failed=len(absent) == len(names))
    return replace(answer, errors=(*answer.errors, *absent), exit_code=code)
