"""The places that offsets live in, behind one Protocol. Connect's REST API is a route to them, not one of them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from seamark.offsets.stored_offset import StoreReading


class Store(Protocol):
    """One place: an offsets topic, a standalone worker's file, a consumer group."""

    @property
    def name(self) -> str:
        """What it is called: `topic connect-offsets`, `file /var/lib/connect.offsets`, `group connect-lake`."""
        ...

    def read(self, owners: Collection[str] | None = None) -> StoreReading:
        """What it holds of these connectors, or of everybody."""
        ...
