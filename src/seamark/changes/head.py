"""Where a change stands, for lists and locks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from seamark.changes.entry import EntryKind


@dataclass(frozen=True, slots=True)
class Head:
    """Where a change stands, as its newest entry says. `spec` is the spec that its plan came from, if it did."""

    change: str
    title: str
    by: str
    opened_at: str
    last_at: str
    last_kind: EntryKind
    last_number: int
    last_hash: str
    locks: tuple[str, ...]
    nonce: str
    step: str = ""
    ending: str = ""
    spec: str = ""

    @property
    def is_open(self) -> bool:
        """Whether the change has not been closed."""
        return self.last_kind is not EntryKind.CLOSE


@dataclass(frozen=True, slots=True)
class OpenChange:
    """What is left to do of a change that isn't finished, and on which clusters.

    `restores` are the steps that run in any case, such as restoring a connector's state: closing the change runs them.
    """

    change: str
    title: str
    holder: str
    held_since: str
    last: str
    last_at: str
    targets: tuple[str, ...]
    subjects: tuple[str, ...]
    remaining: tuple[str, ...]
    restores: tuple[str, ...]


def find_spec(opened: Mapping[str, Any]) -> str:
    """The id of the spec that a change came from, told by the body of its `open` entry; "" where there is none."""
    plan = opened.get("plan")
    spec = plan.get("spec") if isinstance(plan, Mapping) else None
    return str(spec.get("id", "")) if isinstance(spec, Mapping) else ""
