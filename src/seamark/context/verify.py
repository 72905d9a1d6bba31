"""By whose word a context knows what offsets are held: that of the stores, or that of the workers alone."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from seamark.context.layer import KeyPath
from seamark.context.schema import VERIFY
from seamark.context.typed import build_invalid, read_text, refuse_reference
from seamark.context.value import Value


class Verify(StrEnum):
    """What `verify` takes. `STORE` reads topics and groups; `REST` asks two workers, who must agree."""

    STORE = "store"
    REST = "rest"


def build_verify(own: Mapping[KeyPath, Value], *, has_stores: bool) -> tuple[Verify, Value]:
    """The word that counts, and the value it came from. Without brokers or a worker's file there is only one."""
    value = own.get((VERIFY,))
    if value is None:
        found = Verify.STORE if has_stores else Verify.REST
        return found, Value(VERIFY, found.value)
    refuse_reference(value)
    text = read_text(value).lower()
    if text not in set(Verify):
        raise build_invalid(value, "must be store or rest", hint="write verify: store or verify: rest")
    return Verify(text), value
