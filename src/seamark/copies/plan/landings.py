"""The landings that read the source of a copy: their ledgers stand in databases, and no broker knows of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from seamark.core.reading import Reading
from seamark.core.refs import find_mirror, is_mirror, parse_owner
from seamark.kafka.groups import GroupOffsets
from seamark.offsets.stores.ledger import list_ledgers

if TYPE_CHECKING:
    from seamark.kafka.api import BrokersPort
    from seamark.kafka.spot import Spot


def read_landings(kafka: BrokersPort, spots: Sequence[Spot]) -> Reading[GroupOffsets]:
    """The landings that have a place in one of these partitions, and the databases that did not answer."""
    known = list_ledgers(kafka)
    if not known.items:
        return Reading(failures=known.failures)
    held = kafka.read_committed(dict.fromkeys(known.items, spots), with_metadata=False)
    return Reading(tuple(found for found in held.items if found.offsets), failures={**known.failures, **held.failures})


def leave_mirrors_out(groups: Iterable[str], landings: Reading[GroupOffsets]) -> list[str]:
    """These groups without those that only show the lag of landings: whoever has the ledger has them too."""
    mirrors = {find_mirror(found.group) for found in landings.items}
    return [group for group in groups if group not in mirrors]


def say_lone_mirrors(groups: Iterable[str]) -> tuple[str, ...]:
    """What to know of groups that show the lag of landings whose ledgers nobody here knows."""
    return tuple(
        f"group {group} shows the lag of a landing, whose ledger is in no database of the context that answers: the "
        "landing itself is not carried over"
        for group in groups
        if is_mirror(group)
    )


def say_file(owner: str, source: str, *, target: str) -> str:
    """What the file of a landing must say from then on."""
    return (
        f"the landing {parse_owner(owner).name} reads {source} by its file: set from.topic to {target} before it "
        "is started again"
    )
