"""Whether the bytes of a key may be those of a connector, without reading them as JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from seamark.offsets.spelling import spell_text

# A list that begins with a name in plain ASCII: nothing in it can be spelled in another way, so it is sure.
_SURE = re.compile(rb'\["([ !#-\[\]-~]*)"')


def build_key_filter(owners: Collection[str]) -> Callable[[bytes], bool]:
    """True for every key of these connectors, and for the few keys whose owner can't be told at a glance."""
    wanted = frozenset(name.encode("utf-8", "surrogatepass") for name in owners)
    usual = tuple(f"[{spell_text(name)}".encode() for name in owners)
    match = _SURE.match

    def accept(key: bytes) -> bool:
        if key.startswith(usual):
            return True
        sure = match(key)
        return sure is None or sure[1] in wanted

    return accept
