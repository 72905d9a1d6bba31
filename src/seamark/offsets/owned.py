"""The offsets of one owner, and how they were read."""

from __future__ import annotations

from dataclasses import dataclass

from seamark.connect.connector import Connector
from seamark.core.offset import Offset
from seamark.offsets.offset_finding import OffsetFinding
from seamark.offsets.stored_offset import StoredOffset


@dataclass(frozen=True, slots=True)
class OwnedOffsets:
    """What one owner remembers.

    `route` says how it was read: through REST, or from the stores named in `stores`. Then `stored` has the bytes and
    `findings` what is odd. `rest` is what REST said beside, None where it was not asked or did not answer. `connector`
    is None for a consumer group, and for a connector that is gone and left offsets behind.
    """

    owner: str
    connector: Connector | None
    offsets: tuple[Offset, ...]
    route: str = "REST"
    notes: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()
    stored: tuple[StoredOffset, ...] = ()
    forgotten: tuple[StoredOffset, ...] = ()
    findings: tuple[OffsetFinding, ...] = ()
    rest: tuple[Offset, ...] | None = None
