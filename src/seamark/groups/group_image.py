"""What steps see of a group: its commits for the partitions that they touch."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from seamark.changes.world import World
from seamark.errors import NotFoundError, RefusedError
from seamark.kafka.api import BROKERS
from seamark.kafka.groups import Committed, GroupStatus, build_commit_image, count_members, read_commit_image
from seamark.kafka.spot import Spot

Positions = Mapping[str, Mapping[int, Committed | None]]
"""Where a group stands or shall stand: by topic and partition, None where nothing is committed."""


def dump_positions(positions: Positions) -> dict[str, dict[str, Any]]:
    """Positions as JSON takes them."""
    return {
        topic: {
            str(number): None if commit is None else build_commit_image(commit)
            for number, commit in sorted(partitions.items())
        }
        for topic, partitions in sorted(positions.items())
    }


def load_positions(data: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[int, Committed | None]]:
    """Read what `dump_positions` gave."""
    return {
        topic: {
            int(number): None if image is None else read_commit_image(image) for number, image in partitions.items()
        }
        for topic, partitions in data.items()
    }


def build_image(positions: Positions) -> dict[str, dict[str, Any]] | None:
    """The image of positions. None where nothing is committed: whether such a group is there says nothing."""
    if all(commit is None for partitions in positions.values() for commit in partitions.values()):
        return None
    return dump_positions(positions)


def find_spots(positions: Positions) -> tuple[Spot, ...]:
    """The partitions that positions are about."""
    return tuple((topic, number) for topic, partitions in positions.items() for number in partitions)


def build_positions(
    spots: Collection[Spot], commits: Mapping[Spot, Committed]
) -> dict[str, dict[int, Committed | None]]:
    """The positions of some partitions, from what is committed."""
    positions: dict[str, dict[int, Committed | None]] = {}
    for topic, number in spots:
        positions.setdefault(topic, {})[number] = commits.get((topic, number))
    return positions


def read_commits(world: World, group: str, spots: Collection[Spot] | None) -> Mapping[Spot, Committed]:
    """What a group has committed, for some partitions or for all. One that waits for a transaction is an error."""
    reading = world.use(BROKERS)().read_committed({group: spots}, only_stable=True)
    for error in reading.failures.values():
        if isinstance(error, NotFoundError):
            return {}
        raise error
    (found,) = reading.items
    return found.offsets


def read_status(world: World, group: str) -> GroupStatus | None:
    """The group's state, or None where there is none of that name."""
    reading = world.use(BROKERS)().read_groups([group])
    for error in reading.failures.values():
        if isinstance(error, NotFoundError):
            return None
        raise error
    (status,) = reading.items
    return None if status.state == "DEAD" else status


def require_quiet(status: GroupStatus | None, subject: str) -> None:
    """Refuse to touch a group while somebody is in it: what its members commit next would undo it."""
    if status is not None and not status.is_quiet:
        raise RefusedError(
            f"{subject} is in use; nothing was changed",
            cause=f"it is {status.state} with {count_members(status.members)}",
            hint="stop its members first; seamark groups show names them",
        )
