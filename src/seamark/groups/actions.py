"""Actions and steps that move or delete a consumer group."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from seamark.changes.action import (
    LOCKS,
    Reads,
    StandaloneStep,
    StepSeen,
    action_kind,
    needs_permission,
    read_within_deadline,
)
from seamark.changes.effect import ChangeKind, Effect, FieldChange
from seamark.changes.environment import Environment
from seamark.changes.step import CanNotUndo, Intent, Observed, Step, compare_image, step_kind
from seamark.core.offsets import Offset
from seamark.core.refs import build_group_owner
from seamark.errors import NotFoundError, RefusedError, SeamarkError, UnknownOutcomeError
from seamark.groups.targets import OFFSET, build_partition
from seamark.kafka.api import BROKERS, BrokerPort
from seamark.kafka.groups import Committed, GroupStatus, build_commit_image, count_members, read_commit_image
from seamark.kafka.model import TopicPartition
from seamark.policy.permissions import Permission, Right
from seamark.report.words import render_count

Positions = Mapping[str, Mapping[int, Committed | None]]
"""Present or target committed offsets of a group, by topic and partition; None where nothing is committed."""


def dump_positions(positions: Positions) -> dict[str, dict[str, Any]]:
    """Return committed offsets as a JSON object."""
    return {
        topic: {
            str(number): None if commit is None else build_commit_image(commit)
            for number, commit in sorted(partitions.items())
        }
        for topic, partitions in sorted(positions.items())
    }


def load_positions(data: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[int, Committed | None]]:
    """Build committed offsets from what `dump_positions` returned."""
    return {
        topic: {
            int(number): None if image is None else read_commit_image(image) for number, image in partitions.items()
        }
        for topic, partitions in data.items()
    }


def build_image(positions: Positions) -> dict[str, dict[str, Any]] | None:
    """Return the image of committed offsets; None if there are none, whether or not such a group exists."""
    if all(commit is None for partitions in positions.values() for commit in partitions.values()):
        return None
    return dump_positions(positions)


def find_spots(positions: Positions) -> tuple[TopicPartition, ...]:
    """Return the partitions of committed offsets."""
    return tuple((topic, number) for topic, partitions in positions.items() for number in partitions)


def build_positions(
    spots: Collection[TopicPartition], commits: Mapping[TopicPartition, Committed]
) -> dict[str, dict[int, Committed | None]]:
    """Return the committed offsets of some partitions; None where nothing is committed."""
    positions: dict[str, dict[int, Committed | None]] = {}
    for topic, number in spots:
        positions.setdefault(topic, {})[number] = commits.get((topic, number))
    return positions


def read_commits(
    world: Environment, group: str, spots: Collection[TopicPartition] | None
) -> Mapping[TopicPartition, Committed]:
    """Read the committed offsets of a group, for some partitions or all. A pending transactional commit is an error."""
    reading = world.use(BROKERS)().read_committed({group: spots}, only_stable=True)
    for error in reading.failures.values():
        if isinstance(error, NotFoundError):
            return {}
        raise error
    (found,) = reading.items
    return found.offsets


def read_status(world: Environment, group: str) -> GroupStatus | None:
    """Return the group's state; None if there is no group of that name."""
    reading = world.use(BROKERS)().read_groups([group])
    for error in reading.failures.values():
        if isinstance(error, NotFoundError):
            return None
        raise error
    (status,) = reading.items
    return None if status.state == "DEAD" else status


def require_quiet(status: GroupStatus | None, subject: str) -> None:
    """Refuse to change a group that has members, because their next commits would undo the change."""
    if status is not None and not status.is_quiet:
        raise RefusedError(
            f"{subject} is in use; no changes were made",
            cause=f"the group is {status.state} with {count_members(status.members)}",
            hint="stop its members first; seamark groups show lists them",
        )


# A commit is visible as soon as it is answered. A coordinator that moves to another broker takes a few seconds.
_SETTLE_SECONDS = 15.0
_ABSENT_AFTER = "committed offset deleted"


@dataclass(frozen=True, slots=True)
class GroupAction(StandaloneStep):
    """Base of all steps on one consumer group."""

    shows_positions: ClassVar[bool] = True
    aspect: ClassVar[str] = "offsets"
    settle_seconds: ClassVar[float] = _SETTLE_SECONDS
    reaches_by_itself: ClassVar[bool] = True

    group: str

    @property
    def subject(self) -> str:
        return build_group_owner(self.group)

    @classmethod
    def find_locks(cls, actions: Sequence[Self], reads: Reads) -> Sequence[frozenset[str]]:
        return reads.use(LOCKS).find_groups([action.group for action in actions])


@action_kind("move-group")
@needs_permission(Permission.CHANGE_OFFSETS)
@step_kind("move-group")
@dataclass(frozen=True, slots=True)
class MoveGroup(GroupAction):
    """Change the committed offsets of a group; None deletes one. Only the named partitions are read.

    A plan has one such step per group: images are only comparable if they show the same partitions.
    """

    repeats: ClassVar[bool] = True
    # The step itself checks, immediately before it acts, that the group has no members.
    proves: ClassVar[bool] = True
    positions: Positions

    def read_positions(self, image: Any) -> Iterator[Offset]:
        # If the step found no committed offset at all, there is no image.
        shown: Mapping[str, Mapping[Any, Any]] = image or self.positions
        for topic, partitions in shown.items():
            for number, commit in partitions.items():
                offset = {OFFSET: commit["offset"]} if image and commit is not None else None
                yield Offset(build_partition((topic, int(number))), offset)

    def describe(self) -> str:
        spots = find_spots(self.positions)
        count = f"{len(spots)} partition" + ("s" if len(spots) != 1 else "")
        return f"move {self.subject} on {count} of {', '.join(sorted(self.positions))}"

    def find_rights(self) -> frozenset[Right]:
        return frozenset({Right("group", self.group, "READ"), *(Right("topic", one, "READ") for one in self.positions)})

    def build_effect(self, seen: StepSeen) -> Effect:
        before, after = _flatten(seen.intent.before), _flatten(seen.intent.after)
        fields, again, skipped = [], 0, 0
        for spot in sorted(before.keys() | after.keys()):
            old, new = before.get(spot), after.get(spot)
            if old == new:
                continue
            back, ahead = count_moved(old, new)
            again, skipped = again + back, skipped + ahead
            fields.append(
                FieldChange(
                    f"{spot[0]}-{spot[1]}",
                    None if old is None else str(old),
                    None if new is None else str(new),
                    note=_say_spot(old, new, back=back, ahead=ahead),
                )
            )
        where = render_count(len(fields), "partition")
        total = f"{render_count(again, 'record')} reprocessed, {render_count(skipped, 'record')} skipped"
        return Effect(ChangeKind.CHANGE, self.subject, f"move on {where}: {total}", tuple(fields))

    def intend(self, world: Environment) -> Intent:
        return Intent(before=self._read_image(world), after=build_image(self.positions))

    def perform(self, world: Environment, intent: Intent) -> None:
        status = read_within_deadline(world, self.subject, lambda: read_status(world, self.group))
        require_quiet(status, self.subject)
        spots = {spot: self.positions[spot[0]][spot[1]] for spot in find_spots(self.positions)}
        change_commits(world.use(BROKERS)(), self.group, spots)

    def observe(self, world: Environment, intent: Intent) -> Observed:
        now = self._read_image(world)
        seen = compare_image(now, intent)
        if seen is not Observed.FOREIGN:
            return seen
        known = all(
            _find(now, topic, number) in (_find(intent.before, topic, number), _find(intent.after, topic, number))
            for topic, number in find_spots(self.positions)
        )
        return Observed.BETWEEN if known else Observed.FOREIGN

    def undo(self, intent: Intent) -> MoveGroup | CanNotUndo:
        before = load_positions(intent.before or {})
        commits = {
            (topic, number): commit
            for topic, partitions in before.items()
            for number, commit in partitions.items()
            if commit is not None
        }
        return MoveGroup(self.group, build_positions(find_spots(self.positions), commits))

    def _read_image(self, world: Environment) -> Any:
        spots = find_spots(self.positions)
        return build_image(build_positions(spots, read_commits(world, self.group, spots)))


@action_kind("delete-group")
@needs_permission(Permission.DELETE)
@step_kind("delete-group")
@dataclass(frozen=True, slots=True)
class DeleteGroup(GroupAction):
    """Delete a group with all its committed offsets. Undo commits the same offsets again."""

    def read_positions(self, image: Any) -> Iterator[Offset]:
        for topic, partitions in (image or {}).items():
            for number, commit in partitions.items():
                offset = None if commit is None else {OFFSET: commit["offset"]}
                yield Offset(build_partition((topic, int(number))), offset)

    def build_left(self, intent: Intent) -> Any:
        """Return an image without committed offsets on the partitions that had one."""
        return {topic: dict.fromkeys(partitions) for topic, partitions in (intent.before or {}).items()}

    def describe(self) -> str:
        return f"delete {self.subject} and its committed offsets"

    def find_rights(self) -> frozenset[Right]:
        return frozenset({Right("group", self.group, "DELETE")})

    def build_effect(self, seen: StepSeen) -> Effect:
        spots = _flatten(seen.intent.before)
        words = f"delete with its committed offsets on {render_count(len(spots), 'partition')}"
        return Effect(ChangeKind.DELETE, self.subject, words if spots else "delete; it has no committed offsets")

    def intend(self, world: Environment) -> Intent:
        return Intent(before=self._read_image(world), after=None)

    def perform(self, world: Environment, intent: Intent) -> None:
        status = read_within_deadline(world, self.subject, lambda: read_status(world, self.group))
        require_quiet(status, self.subject)
        world.use(BROKERS)().delete_group(self.group)

    def observe(self, world: Environment, intent: Intent) -> Observed:
        return compare_image(self._read_image(world), intent)

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        # A group without committed offsets leaves nothing to restore.
        return MoveGroup(self.group, load_positions(intent.before)) if intent.before else None

    def _read_image(self, world: Environment) -> Any:
        """Return all committed offsets; empty if the group exists without any, None if it doesn't exist."""
        commits = read_commits(world, self.group, None)
        if commits:
            return build_image(build_positions(sorted(commits), commits))
        return None if read_status(world, self.group) is None else {}


def change_commits(kafka: BrokerPort, group: str, commits: Mapping[TopicPartition, Committed | None]) -> None:
    """Commit offsets for a group without members; None deletes the committed offset of a partition."""
    kept = {spot: commit for spot, commit in commits.items() if commit is not None}
    kafka.alter_group_offsets(group, kept)
    try:
        kafka.delete_group_offsets(group, [spot for spot, commit in commits.items() if commit is None])
    except SeamarkError as error:
        if isinstance(error, NotFoundError) and error.context.get("kafka_error") == "GROUP_ID_NOT_FOUND":
            # A missing group has no committed offsets, which is the wanted state.
            return
        if not kept or isinstance(error, UnknownOutcomeError):
            raise
        raise UnknownOutcomeError(
            f"{build_group_owner(group)}: some offsets were set, but others were not deleted",
            cause=f"{error.message}: {error.cause}",
            hint=error.hint,
        ) from error


def _find(image: Any, topic: str, number: int) -> Any:
    return (image or {}).get(topic, {}).get(str(number))


def count_moved(before: int | None, after: int | None) -> tuple[int, int]:
    """Return how many records are reprocessed, and how many are skipped; 0 if an offset is unknown."""
    if before is None or after is None:
        return 0, 0
    return max(0, before - after), max(0, after - before)


def _say_spot(old: int | None, new: int | None, *, back: int, ahead: int) -> str:
    if new is None:
        return _ABSENT_AFTER
    if old is None:
        return "no offset was committed"
    return f"{render_count(back, 'record')} reprocessed" if back else f"{render_count(ahead, 'record')} skipped"


def _flatten(image: Any) -> dict[tuple[str, int], int | None]:
    return {
        (topic, int(number)): None if commit is None else commit["offset"]
        for topic, partitions in (image or {}).items()
        for number, commit in partitions.items()
    }
