"""How far a landing is, told by its ledger and the brokers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from seamark.errors import RefusedError
from seamark.kafka.model import LogOffsets
from seamark.pipelines.declared import PipelineSpec


class LandState(StrEnum):
    """Where a landing stands."""

    NEW = "not begun"
    BEHIND = "behind"
    LANDED = "landed"
    LOST = "records are lost"


@dataclass(frozen=True, slots=True)
class PipelinePartition:
    """One partition: what the ledger says, None where it has no entry; and what the topic holds."""

    partition: int
    landed: int | None
    bounds: LogOffsets

    @property
    def behind(self) -> int:
        """How many offsets are not landed yet."""
        landed = self.bounds.earliest if self.landed is None else self.landed
        return max(0, self.bounds.latest - landed)

    @property
    def lost(self) -> int:
        """How many offsets were deleted before they were landed."""
        return 0 if self.landed is None else max(0, self.bounds.earliest - self.landed)


@dataclass(frozen=True, slots=True)
class LandPlan:
    """What a run would do: `statements` make the table fit, then records are landed from where each partition stands.

    It is also what is known of a landing at any time.
    """

    declared: PipelineSpec
    topic_id: str
    partitions: tuple[PipelinePartition, ...]
    statements: tuple[str, ...]
    # Entries of a topic of this name that is no more.
    former: int = 0

    @property
    def behind(self) -> int:
        """How many offsets are not landed yet."""
        return sum(one.behind for one in self.partitions)

    @property
    def state(self) -> LandState:
        """In one word."""
        if any(one.lost for one in self.partitions):
            return LandState.LOST
        if all(one.landed is None for one in self.partitions):
            return LandState.NEW
        return LandState.BEHIND if self.behind else LandState.LANDED

    @property
    def next_step(self) -> str:
        """The next command, or what to decide."""
        name = self.declared.landing.name
        if self.state is LandState.LOST:
            return f"accept the loss: seamark offsets move {self.declared.landing.owner} --to earliest"
        return "-" if self.state is LandState.LANDED else f"seamark pipelines run {name}"

    def require_whole(self) -> None:
        """Refuse a landing of which records are lost: its owner decides whether to continue without them."""
        if self.state is not LandState.LOST:
            return
        landing = self.declared.landing
        raise RefusedError(
            f"records of {landing.topic} were deleted before pipeline {landing.name} processed them",
            cause=", ".join(f"partition {one.partition}: {one.lost}" for one in self.partitions if one.lost),
            hint=f"accept the loss: seamark offsets move {landing.owner} --to earliest",
        )

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        landing = self.declared.landing
        return {
            "name": landing.name,
            "topic": landing.topic,
            "topic_id": self.topic_id,
            "store": landing.store,
            "where": self.declared.where,
            "table": landing.table,
            "mode": landing.mode.value,
            "state": self.state.value,
            "behind": self.behind,
            "statements": list(self.statements),
            "notes": list(self.declared.notes),
            "partitions": [
                {
                    "partition": one.partition,
                    "next_offset": one.landed,
                    "earliest": one.bounds.earliest,
                    "latest": one.bounds.latest,
                    "behind": one.behind,
                    "lost": one.lost,
                }
                for one in self.partitions
            ],
        }


def build_standings(bounds: Mapping[int, LogOffsets], landed: Mapping[int, int]) -> tuple[PipelinePartition, ...]:
    """Both side by side, by partition."""
    return tuple(PipelinePartition(number, landed.get(number), held) for number, held in sorted(bounds.items()))
