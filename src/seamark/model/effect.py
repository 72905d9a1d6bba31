"""What a step will do to the running system, for whoever must say yes to it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Sign(StrEnum):
    """The mark before a line of a plan."""

    CREATE = "+"
    CHANGE = "~"
    DELETE = "-"


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One value before and after; None where there is none. Secrets are masked, and `is_sensitive` says so."""

    key: str
    before: str | None
    after: str | None
    is_sensitive: bool = False


@dataclass(frozen=True, slots=True)
class Effect:
    """One line of a plan. `words` say what it means in operation; `tasks` is how many tasks start or restart."""

    sign: Sign
    subject: str
    words: str
    fields: tuple[FieldChange, ...] = ()
    tasks: int = 0
