"""How far a landing is, told by its ledger and the brokers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from seamark.errors import ConfigurationError, RefusedError, UsageError
from seamark.kafka.model import Bounds
from seamark.pipelines.declared import Declared
from seamark.pipelines.layout import build_lake_statements, build_statements
from seamark.tables.owners import open_lake

if TYPE_CHECKING:
    from seamark.tables.delta.table import LakeTable
    from seamark.tables.model import Entry
    from seamark.tables.postgres.writer import LandingDatabase


class LandState(StrEnum):
    """Where a landing stands."""

    NEW = "not begun"
    BEHIND = "behind"
    LANDED = "landed"
    LOST = "records are lost"


@dataclass(frozen=True, slots=True)
class PartitionStanding:
    """One partition: what the ledger says, None where it has no entry; and what the topic holds."""

    partition: int
    landed: int | None
    bounds: Bounds

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

    declared: Declared
    topic_id: str
    partitions: tuple[PartitionStanding, ...]
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
        return "-" if self.state is LandState.LANDED else f"seamark land run {name}"

    def require_whole(self) -> None:
        """Refuse a landing of which records are lost: whether to go on without them is its owner's to say."""
        if self.state is not LandState.LOST:
            return
        landing = self.declared.landing
        raise RefusedError(
            f"records of {landing.topic} were deleted before {landing.name} has landed them",
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
            "store": landing.store.value,
            "where": self.declared.where,
            "table": landing.table,
            "mode": landing.mode.value,
            "state": self.state.value,
            "behind": self.behind,
            "statements": list(self.statements),
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


def build_standings(bounds: Mapping[int, Bounds], landed: Mapping[int, int]) -> tuple[PartitionStanding, ...]:
    """Both side by side, by partition."""
    return tuple(PartitionStanding(number, landed.get(number), held) for number, held in sorted(bounds.items()))


class TargetPort(Protocol):
    """A landing's table."""

    def read_offsets(self) -> dict[tuple[str, int], Entry]:
        """How far the landing is, by the topic's id and the partition."""

    def build_statements(self) -> tuple[str, ...]:
        """What is missing before a run, in words."""

    def make_fit(self, statements: tuple[str, ...]) -> None:
        """Do what those statements say."""


def open_target(declared: Declared) -> TargetPort:
    """The target of a landing."""
    return _LakeTarget(declared) if declared.lake is not None else _TableTarget(declared)


class _TableTarget:
    def __init__(self, declared: Declared) -> None:
        self._landing = declared.landing
        self._database = open_database(declared)

    def read_offsets(self) -> dict[tuple[str, int], Entry]:
        return self._database.read_if_any()

    def build_statements(self) -> tuple[str, ...]:
        return build_statements(self._landing, self._database.read_columns())

    def make_fit(self, statements: tuple[str, ...]) -> None:
        self._database.change_table(statements)


class _LakeTarget:
    def __init__(self, declared: Declared) -> None:
        self._landing = declared.landing
        self._table = open_table(declared)

    def read_offsets(self) -> dict[tuple[str, int], Entry]:
        return self._table.read_position().entries

    def build_statements(self) -> tuple[str, ...]:
        return build_lake_statements(self._landing, self._table.read_layout())

    def make_fit(self, statements: tuple[str, ...]) -> None:  # noqa: ARG002 - there is no SQL here
        from seamark.pipelines.delta_schema import make_fit  # noqa: PLC0415

        make_fit(self._table, self._landing)


def open_table(declared: Declared) -> LakeTable:
    """The table of a landing in a lake."""
    landing = declared.landing
    if declared.lake is None:
        raise UsageError(f"{landing.name} lands in a database, which has no files", hint="VACUUM is its own")
    place = open_lake(declared.lake)
    from seamark.tables.delta.table import LakeTable  # noqa: PLC0415

    return LakeTable(place.below(landing.table), owner=landing.owner)


def open_database(declared: Declared) -> LandingDatabase:
    """The database of a landing."""
    try:
        from seamark.pipelines.database import open_landing_database  # noqa: PLC0415
    except ImportError as error:
        raise ConfigurationError(
            "PostgreSQL's driver is not installed", cause=str(error), hint="pip install 'seamark[postgres]'"
        ) from error
    return open_landing_database(declared.landing, declared.url)
