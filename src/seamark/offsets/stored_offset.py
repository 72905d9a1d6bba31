"""Offsets as a store holds them: with the bytes, and where they lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from seamark.core.offset import Offset, OffsetKey, OffsetMap

if TYPE_CHECKING:
    from seamark.offsets.offset_finding import OffsetFinding


class Evidence(NamedTuple):
    """One record of a store, and what a worker makes of it.

    `partition`, `record_offset` and `timestamp_ms` are those of the record in its topic; a file has none. A consumer
    group has no bytes either. `offset` is what the value says, None where it says nothing. The verdicts are the words
    of docs/offsets.md. A tuple, because a hundred thousand of them are held at once.
    """

    store: str
    key: bytes | None = None
    value: bytes | None = None
    partition: int | None = None
    record_offset: int | None = None
    timestamp_ms: int | None = None
    offset: OffsetMap | None = None
    key_verdict: str = "good"
    value_verdict: str = "good"
    oddities: tuple[str, ...] = ()

    @property
    def is_tombstone(self) -> bool:
        """Whether the record says that there is no offset any more."""
        return self.value_verdict == "tombstone"

    @property
    def place(self) -> str:
        """Where it lies: `connect-offsets-3@117`, or the store's name."""
        if self.partition is None:
            return self.store
        return f"{self.store.removeprefix('topic ')}-{self.partition}@{self.record_offset}"


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """What is held for one partition, however many records speak of it.

    `evidence` is the record that `offset` comes from, `others` are the rest: other spellings of the key, other
    partitions of the topic. Where they leave open which one a task finds, `is_certain` is false, and the one that was
    written last is shown.
    """

    key: OffsetKey
    offset: OffsetMap | None
    evidence: Evidence
    others: tuple[Evidence, ...] = ()
    is_certain: bool = True

    def as_offset(self) -> Offset:
        """The partition and the position alone."""
        return Offset(self.key.partition, self.offset)


@dataclass(frozen=True, slots=True)
class StoreReading:
    """What a store holds, of everybody or of those who were asked for.

    `forgotten` are partitions whose offset was taken away. `scanned` is how many records were looked at. `partitions`
    are those of the topic, where a key's home among them is known.
    """

    store: str
    offsets: tuple[StoredOffset, ...] = ()
    forgotten: tuple[StoredOffset, ...] = ()
    findings: tuple[OffsetFinding, ...] = ()
    scanned: int = 0
    partitions: int | None = None
