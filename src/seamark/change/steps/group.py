"""A consumer group is moved, or deleted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from seamark.change.step import CanNotUndo, Intent, Observed, Step
from seamark.change.steps.config import compare_image
from seamark.change.steps.group_image import (
    Positions,
    build_image,
    build_positions,
    dump_positions,
    find_spots,
    load_positions,
    read_commits,
    read_status,
    require_quiet,
)
from seamark.change.steps.last_look import take_last_look
from seamark.change.world import BrokerPort, World
from seamark.errors import NotFoundError, SeamarkError, UnknownOutcomeError
from seamark.model.group import Committed, build_group_owner
from seamark.model.plan import StepData
from seamark.model.spot import Spot

# A commit is seen as soon as it is answered. A coordinator that moves to another broker takes some seconds.
_SETTLE_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class MoveGroup:
    """A group gets other positions, or none where a position is None. Only the partitions named are looked at.

    A plan has one such step for a group: their images are only comparable where they show the same partitions.
    """

    kind: ClassVar[str] = "move-group"
    aspect: ClassVar[str] = "offsets"
    drifts: ClassVar[bool] = False
    acts: ClassVar[bool] = True
    repeats: ClassVar[bool] = True
    # It looks itself, right before it acts, that nobody is in the group.
    proves: ClassVar[bool] = True
    settle_seconds: ClassVar[float] = _SETTLE_SECONDS

    group: str
    positions: Positions

    @property
    def subject(self) -> str:
        return build_group_owner(self.group)

    def describe(self) -> str:
        spots = find_spots(self.positions)
        count = f"{len(spots)} partition" + ("s" if len(spots) != 1 else "")
        return f"move {self.subject} on {count} of {', '.join(sorted(self.positions))}"

    def intend(self, world: World) -> Intent:
        return Intent(before=self._read_image(world), after=build_image(self.positions))

    def perform(self, world: World, intent: Intent) -> None:
        del intent
        status = take_last_look(world, self.subject, lambda: read_status(world, self.group))
        require_quiet(status, self.subject)
        spots = {spot: self.positions[spot[0]][spot[1]] for spot in find_spots(self.positions)}
        change_commits(world.kafka(), self.group, spots)

    def observe(self, world: World, intent: Intent) -> Observed:
        now = self._read_image(world)
        seen = compare_image(now, intent)
        if seen is not Observed.FOREIGN:
            return seen
        known = all(
            _find(now, topic, number) in (_find(intent.before, topic, number), _find(intent.after, topic, number))
            for topic, number in find_spots(self.positions)
        )
        return Observed.BETWEEN if known else Observed.FOREIGN

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        before = load_positions(intent.before or {})
        commits = {
            (topic, number): commit
            for topic, partitions in before.items()
            for number, commit in partitions.items()
            if commit is not None
        }
        return MoveGroup(self.group, build_positions(find_spots(self.positions), commits))

    def to_data(self, *, lane: str = "", always: bool = False) -> StepData:
        arguments = {"group": self.group, "positions": dump_positions(self.positions)}
        return StepData(self.kind, self.subject, arguments, lane=lane, always=always)

    @classmethod
    def from_data(cls, data: StepData) -> Self:
        return cls(data.arguments["group"], load_positions(data.arguments["positions"]))

    def _read_image(self, world: World) -> Any:
        spots = find_spots(self.positions)
        return build_image(build_positions(spots, read_commits(world, self.group, spots)))


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """A group is deleted with all that it has committed. Undoing it commits the same again."""

    kind: ClassVar[str] = "delete-group"
    aspect: ClassVar[str] = "offsets"
    drifts: ClassVar[bool] = False
    acts: ClassVar[bool] = True
    settle_seconds: ClassVar[float] = _SETTLE_SECONDS

    group: str

    @property
    def subject(self) -> str:
        return build_group_owner(self.group)

    def describe(self) -> str:
        return f"delete {self.subject} and all that it has committed"

    def intend(self, world: World) -> Intent:
        return Intent(before=self._read_image(world), after=None)

    def perform(self, world: World, intent: Intent) -> None:
        del intent
        status = take_last_look(world, self.subject, lambda: read_status(world, self.group))
        require_quiet(status, self.subject)
        world.kafka().delete_group(self.group)

    def observe(self, world: World, intent: Intent) -> Observed:
        return compare_image(self._read_image(world), intent)

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        # A group that had committed nothing leaves nothing to put back.
        return MoveGroup(self.group, load_positions(intent.before)) if intent.before else None

    def to_data(self, *, lane: str = "", always: bool = False) -> StepData:
        return StepData(self.kind, self.subject, {"group": self.group}, lane=lane, always=always)

    @classmethod
    def from_data(cls, data: StepData) -> Self:
        return cls(**data.arguments)

    def _read_image(self, world: World) -> Any:
        """Everything that is committed; empty where the group is there and has nothing, None where it is not."""
        commits = read_commits(world, self.group, None)
        if commits:
            return build_image(build_positions(sorted(commits), commits))
        return None if read_status(world, self.group) is None else {}


def change_commits(kafka: BrokerPort, group: str, commits: Mapping[Spot, Committed | None]) -> None:
    """Commit for a group that nobody is in; None forgets what it has committed for a partition."""
    kept = {spot: commit for spot, commit in commits.items() if commit is not None}
    kafka.alter_group_offsets(group, kept)
    try:
        kafka.delete_group_offsets(group, [spot for spot, commit in commits.items() if commit is None])
    except SeamarkError as error:
        if isinstance(error, NotFoundError) and error.context.get("kafka_error") == "GROUP_ID_NOT_FOUND":
            # A group that is not there has committed nothing, as it shall be.
            return
        if not kept or isinstance(error, UnknownOutcomeError):
            raise
        raise UnknownOutcomeError(
            f"{build_group_owner(group)}: some offsets were set, others were not forgotten",
            cause=f"{error.message}: {error.cause}",
            hint=error.hint,
        ) from error


def _find(image: Any, topic: str, number: int) -> Any:
    return (image or {}).get(topic, {}).get(str(number))
