"""Which keys of connectors' configs were secrets before, as the journal knows it: their names alone may not tell."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from seamark.change.image import find_sealed
from seamark.change.locks import conflicts
from seamark.change.past import Past, read_past
from seamark.errors import NotFoundError

if TYPE_CHECKING:
    from seamark.change.journal import Journal
    from seamark.model.head import Head


class SealedKeys:
    """Reads the journal when it is asked, and each closed change once: a plan may ask for many connectors."""

    def __init__(self, journal: Callable[[], Journal]) -> None:
        self._journal = journal
        self._newest = ""
        self._heads: tuple[Head, ...] = ()
        self._known: dict[str, Mapping[str, frozenset[str]]] = {}

    def find(self, subject: str, locks: Collection[str]) -> frozenset[str]:
        """The keys of a connector that any change under one of these locks kept as seals.

        Not the newest change alone: one that set another key may have left this one as it was.

        Raises:
            JournalError: the journal can't be read; nobody can tell.
        """
        try:
            heads = self._read_heads()
        except NotFoundError:
            # A journal that was not made yet knows of no secret.
            return frozenset()
        chosen = [head for head in heads if any(conflicts(one, other) for one in head.locks for other in locks)]
        return frozenset().union(*(self._read(head).get(subject, frozenset()) for head in chosen))

    def _read_heads(self) -> tuple[Head, ...]:
        """Every head. The newest one is cheap to read, and tells whether the others are known."""
        newest = "".join(head.last_hash for head in self._journal().heads(limit=1))
        if newest != self._newest:
            self._heads, self._newest = self._journal().heads(), newest
        return self._heads

    def _read(self, head: Head) -> Mapping[str, frozenset[str]]:
        if head.change not in self._known:
            found = _find_keys(read_past(self._journal().read(head.change)))
            if head.is_open:
                return found
            self._known[head.change] = found
        return self._known[head.change]


def _find_keys(past: Past) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for number, (intent, _) in past.intents.items():
        subject = past.plan.steps[number].subject
        for image in (intent.before, intent.after):
            found[subject] = found.get(subject, frozenset()).union(find_sealed(_config_of(image)))
    return found


def _config_of(image: Any) -> Mapping[str, Any]:
    config = image.get("config") if isinstance(image, Mapping) else None
    return config if isinstance(config, Mapping) else {}
