"""What a step will do to the running system, for whoever must say yes to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from seamark.core.offsets import Counted, OffsetMap, Order


class ChangeKind(StrEnum):
    """What a plan does to a resource: the mark at the start of its line."""

    CREATE = "+"
    CHANGE = "~"
    DELETE = "-"


@dataclass(frozen=True, slots=True)
class Preview:
    """One partition of a move. `order` is where the new position lies, seen from the held one.

    BEFORE: what is counted is read again. AFTER: it is skipped.
    """

    partition: OffsetMap
    order: Order
    counted: Counted

    @property
    def is_known(self) -> bool:
        """Whether there is a figure and a direction."""
        return self.order is Order.EQUAL or (self.order is not Order.UNKNOWN and self.counted.figure is not None)

    def as_dict(self) -> Mapping[str, object]:
        """The same for JSON."""
        words = {Order.BEFORE: "again", Order.AFTER: "skipped", Order.EQUAL: "same"}
        return {"direction": words.get(self.order, "unknown"), **self.counted.as_dict()}


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

    `consequences` are sentences on what becomes of the data.
    """

    sign: ChangeKind
    subject: str
    words: str
    fields: tuple[FieldChange, ...] = ()
    tasks: int = 0
    consequences: tuple[str, ...] = ()


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
