"""Typed keys for what the environment of a change provides."""

from __future__ import annotations

from typing import Generic, TypeVar

P = TypeVar("P")


class Port(Generic[P]):
    """A typed key under which a capability is found: `world.use(CONNECT)`, `reads.use(LOCKS)`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Port({self.name!r})"
