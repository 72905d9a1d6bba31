"""What is odd about stored offsets, by name."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from seamark.core.offset import OffsetMap
from seamark.offsets.stored_offset import Evidence


class OffsetOddity(StrEnum):
    """What was found. Each stays as it lies: nothing is dropped, and nothing is guessed."""

    VARIANTS = "variants"
    """One partition under several spellings. A task knows one of them, its own."""
    STRAY = "stray"
    """A key on a partition of the topic where Java's partitioner does not put it."""
    MASKED = "masked"
    """A tombstone hides an offset: under another spelling from REST, on another partition from tasks too."""
    NEVER_READ = "never-read"
    """Bytes that Connect never writes, such as a key with spaces: no task finds them."""
    BAD_KEY = "bad-key"
    """A key that a worker passes over."""
    BAD_VALUE = "bad-value"
    """A value that a worker can't read, or that says nothing: the task gets nothing."""
    ODD_BYTES = "odd-bytes"
    """A worker reads it, but not as one would think: text behind the end, a field twice, a number beyond 64 bits."""
    OPEN_TRANSACTION = "open-transaction"
    """A transaction that nobody ended hides what follows. Connect itself waits for its end."""
    NO_FALLBACK = "no-fallback"
    """It stands in the workers' topic only, and the connector has its own: Connect does not fall back."""
    COPY_DIFFERS = "copy-differs"
    """The copy in the workers' topic says something else than the connector's own topic, which counts."""
    REST_NULL = "rest-null"
    """REST answered null for a partition that holds an offset."""
    REST_DIFFERS = "rest-differs"
    """REST answered another offset than the store holds."""
    REST_ABSENT = "rest-absent"
    """REST did not name a partition that holds an offset."""
    REST_ALONE = "rest-alone"
    """REST named a partition for which the store holds nothing."""


@dataclass(frozen=True, slots=True)
class OffsetFinding:
    """One odd thing: whose it is ("" where that can't be told), of which partition, and the records that show it."""

    oddity: OffsetOddity
    connector: str
    message: str
    partition: OffsetMap | None = None
    evidence: tuple[Evidence, ...] = ()
