"""The interface of steps to the running systems, and a snapshot of it: one read of each Connect cluster.

Steps use the snapshot like the running systems, so that they find the same state without a request per step.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Protocol

from seamark.core.refs import P, Port


class Clock(Protocol):
    """A source of time; a simulation can provide its own."""

    def now(self) -> float:
        """Return the seconds since the epoch."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""
        ...


class Environment(Protocol):
    """The running systems of one context. It defines no capabilities: each has its own port."""

    @property
    def clock(self) -> Clock: ...

    def use(self, port: Port[P]) -> P:
        """Return the capability that is registered under a key.

        Raises:
            KeyError: none is registered.
        """
        ...

    def reveal(self, reference: str) -> str:
        """Return the value behind a `secret://` reference."""
        ...

    def seal(self, value: str) -> str:
        """Return a keyed hash of a secret for the journal: equal secrets have equal hashes."""
        ...


class SnapshotEnvironment:
    """A read-only `Environment`: ports with `open_snapshot` are read once, everything else is live.

    `known` contains the snapshots of ports that have been read already.
    """

    def __init__(self, world: Environment, known: Mapping[Port[Any], Any] | None = None) -> None:
        self._world = world
        self._snapshots: dict[Port[Any], Any] = dict(known or {})
        # Reentrant, because opening the snapshot of one port may use that of another.
        self._lock = threading.RLock()
        # Ten thousand connectors have a handful of passwords; each is looked up once, and only for one plan.
        self._revealed: dict[str, str] = {}

    @property
    def clock(self) -> Clock:
        """The clock of the wrapped environment."""
        return self._world.clock

    def use(self, port: Port[P]) -> P:
        """Return the snapshot of a capability, opened at the first use; the live one if the port has no snapshot."""
        with self._lock:
            if port not in self._snapshots:
                if port.open_snapshot is None:
                    return self._world.use(port)
                self._snapshots[port] = port.open_snapshot(self._world, self)
            found: P = self._snapshots[port]
            return found

    def reveal(self, reference: str) -> str:
        """Return the value behind a reference."""
        if reference not in self._revealed:
            self._revealed[reference] = self._world.reveal(reference)
        return self._revealed[reference]

    def seal(self, value: str) -> str:
        """Return a keyed hash of a secret."""
        return self._world.seal(value)
