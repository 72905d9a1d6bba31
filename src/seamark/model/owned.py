"""The offsets of one owner, and how they were read."""

from __future__ import annotations

from dataclasses import dataclass

from seamark.model.connector import Connector
from seamark.model.offset import Offset


@dataclass(frozen=True, slots=True)
class OwnedOffsets:
    """What one owner remembers.

    `route` says how it was read, and `notes` what that route can't tell.
    """

    owner: str
    connector: Connector
    offsets: tuple[Offset, ...]
    route: str = "REST"
    notes: tuple[str, ...] = ()
