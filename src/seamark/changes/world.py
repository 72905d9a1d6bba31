"""What steps act on: the running systems and the clock, behind ports that a simulation can stand in for."""

from __future__ import annotations

from typing import Protocol

from seamark.core.ports import P, Port


class Clock(Protocol):
    """Time, so that a simulation can have its own."""

    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class World(Protocol):
    """The running systems of one context. It knows no capability: each has a port of its own."""

    @property
    def clock(self) -> Clock: ...

    def use(self, port: Port[P]) -> P:
        """Return the capability that is registered under a key.

        Raises:
            KeyError: none is.
        """
        ...

    def reveal(self, reference: str) -> str:
        """Return the value behind a `secret://` reference."""
        ...

    def seal(self, value: str) -> str:
        """Return a keyed hash of a secret, for the journal: equal secrets have equal hashes."""
        ...
