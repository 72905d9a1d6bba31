"""Whether the bytes of a key may be those of a connector, without reading them as JSON."""

from __future__ import annotations

import re
from collections.abc import Collection

from seamark.offsets.codec.spelling import spell_text

# A list that begins with a name in plain ASCII: nothing in it can be spelled in another way, so it is sure.
_SURE = re.compile(rb'\["([ !#-\[\]-~]*)"')


class KeyFilter:
    """Accepts every key of these connectors, and the few keys whose owner can't be told at a glance."""

    __slots__ = ("_usual", "_wanted", "owners")

    def __init__(self, owners: Collection[str]) -> None:
        self.owners = frozenset(owners)
        self._wanted = frozenset(name.encode("utf-8", "surrogatepass") for name in owners)
        self._usual = tuple(f"[{spell_text(name)}".encode() for name in owners)

    def __call__(self, key: bytes) -> bool:
        """Return whether a key may be of one of the owners."""
        if key.startswith(self._usual):
            return True
        sure = _SURE.match(key)
        return sure is None or sure[1] in self._wanted


def build_key_filter(owners: Collection[str]) -> KeyFilter:
    """Build the filter for the keys of these connectors."""
    return KeyFilter(owners)
