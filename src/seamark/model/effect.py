"""What a step will do to the running system, for whoever must say yes to it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from seamark.model.preview import Preview


class Sign(StrEnum):
    """The mark before a line of a plan."""

    CREATE = "+"
    CHANGE = "~"
    DELETE = "-"


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One value before and after; None where there is none. Secrets are masked, and `is_sensitive` says so.

    `note` says what the difference means, where it is not plain. `preview` counts it, where it is a position.
    """

    key: str
    before: str | None
    after: str | None
    is_sensitive: bool = False
    note: str = ""
    preview: Preview | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """One line of a plan. `words` say what it means in operation; `tasks` is how many tasks start or restart.

    `outlook` are sentences on what becomes of the data.
    """

    sign: Sign
    subject: str
    words: str
    fields: tuple[FieldChange, ...] = ()
    tasks: int = 0
    outlook: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DriftField:
    """One value that somebody changed outside a spec: what it applied, what is there, and what it wants now."""

    key: str
    applied: str | None
    live: str | None
    wanted: str | None
    is_sensitive: bool = False


@dataclass(frozen=True, slots=True)
class Drift:
    """What was changed outside a spec since `change`, the last one by which the spec applied it."""

    subject: str
    words: str
    change: str
    fields: tuple[DriftField, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterSurvey:
    """What was looked at in one Connect cluster for a plan.

    `unchanged` are the connectors that are as the spec says, `foreign` those that the spec does not name.
    """

    name: str
    version: str
    workers: int
    connectors: int
    unchanged: int
    foreign: int = 0
