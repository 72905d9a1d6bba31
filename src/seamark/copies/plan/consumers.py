"""The exact consumers among the readers of a copy: the offsets of their groups only follow a ledger."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from seamark.tables.ledger_owners import list_consumers

if TYPE_CHECKING:
    from seamark.context import Context
    from seamark.copies.cutover.action import CutOver


def say_consumers(cutover: CutOver, context: Context) -> Iterator[str]:
    """What to look at before the group of an exact consumer is carried over: it goes on at what its group says."""
    groups = [one.group for one in cutover.groups if not one.is_pipeline]
    known = list_consumers(context) if groups else frozenset()
    for group in groups:
        if group in known:
            yield (
                f"group {group} is of a consumer that keeps its offsets in a ledger; what it has committed is older, "
                f"if it was killed, and rows would be there twice: compare seamark groups show {group} with "
                "seamark_ledger; where they differ, start it once more and close it"
            )
