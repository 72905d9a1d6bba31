"""Effects: what a plan's actions do to the running system, as shown for approval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from seamark.core.offsets import Counted, OffsetMap, Order


class ChangeKind(StrEnum):
    """The operation on a resource: the sign at the start of its line in a plan."""

    CREATE = "+"
    CHANGE = "~"
    DELETE = "-"


@dataclass(frozen=True, slots=True)
class Preview:
    """How far an offset move takes one partition.

    `order` is the new offset's order relative to the current one. BEFORE: the counted records are reprocessed. AFTER:
    they are skipped.
    """

    partition: OffsetMap
    order: Order
    counted: Counted

    @property
    def is_known(self) -> bool:
        """Whether both the count and the direction are known."""
        return self.order is Order.EQUAL or (self.order is not Order.UNKNOWN and self.counted.figure is not None)

    def as_dict(self) -> Mapping[str, object]:
        """Return the preview for JSON output."""
        words = {Order.BEFORE: "again", Order.AFTER: "skipped", Order.EQUAL: "same"}
        return {"direction": words.get(self.order, "unknown"), **self.counted.as_dict()}


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One value before and after the change; None if there is no value.

    Secrets are masked, and `is_sensitive` is set for them. `note` explains the difference if it isn't obvious.
    `preview` counts the records between the values if they are offsets.
    """

    key: str
    before: str | None
    after: str | None
    is_sensitive: bool = False
    note: str = ""
    preview: Preview | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """One line of a plan.

    `words` describes the effect on operation. `tasks` is the number of tasks that start or restart. `consequences` are
    sentences about the effect on the data.
    """

    sign: ChangeKind
    subject: str
    words: str
    fields: tuple[FieldChange, ...] = ()
    tasks: int = 0
    consequences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DriftField:
    """One value that was changed outside the spec: the applied, the live and the wanted value."""

    key: str
    applied: str | None
    live: str | None
    wanted: str | None
    is_sensitive: bool = False


@dataclass(frozen=True, slots=True)
class Drift:
    """Changes made outside a spec since `change`, the last change that applied the spec to the resource."""

    subject: str
    words: str
    change: str
    fields: tuple[DriftField, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterSurvey:
    """What planning found in one Connect cluster.

    `unchanged` counts the connectors that already match the spec, `foreign` those that the spec doesn't name.
    """

    name: str
    version: str
    workers: int
    connectors: int
    unchanged: int
    foreign: int = 0
