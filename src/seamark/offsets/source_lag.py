"""How far sources are behind what they read."""

from __future__ import annotations

from dataclasses import dataclass

from seamark.core.distance import Certainty, Counted

# From the surest to the least sure: a sum is worth as much as the worst of its parts.
_WORTH = (Certainty.EXACT, Certainty.BOUND, Certainty.ESTIMATE, Certainty.UNKNOWN)


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """What a source has not read yet of one partition, which is told in the words of its family."""

    partition: str
    counted: Counted


@dataclass(frozen=True, slots=True)
class SourceLag:
    """How far one source is behind, by partition. `state` is Connect's word, "" where it has none."""

    owner: str
    state: str = ""
    partitions: tuple[PartitionLag, ...] = ()

    @property
    def known(self) -> tuple[PartitionLag, ...]:
        """The partitions that could be counted."""
        return tuple(found for found in self.partitions if found.counted.figure is not None)

    @property
    def total(self) -> int | None:
        """All that could be counted; None where nothing could."""
        known = [found.counted.figure for found in self.known if found.counted.figure is not None]
        return sum(known) if known else None

    @property
    def unit(self) -> str:
        """What was counted: a source reads of one kind of thing."""
        return next((found.counted.unit.value for found in (*self.known, *self.partitions)), "")

    @property
    def certainty(self) -> Certainty:
        """What the total is worth; a part that could not be counted makes it a lower bound, which nobody may trust."""
        if not self.known:
            return Certainty.UNKNOWN
        return max((found.counted.certainty for found in self.known), key=_WORTH.index)

    @property
    def worst(self) -> PartitionLag | None:
        """The partition that is behind most."""
        return max(self.known, key=lambda found: found.counted.figure or 0, default=None)

    @property
    def reason(self) -> str:
        """Why some of it could not be counted, or not exactly; "" where all was."""
        reasons = dict.fromkeys(found.counted.reason for found in self.partitions if found.counted.reason)
        return "; ".join(reasons)
