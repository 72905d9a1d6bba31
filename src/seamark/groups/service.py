"""Consumer groups: reading, moving and deleting them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from seamark.changes.action import Action
from seamark.changes.plan import PlannedChange
from seamark.changes.planner import Planner
from seamark.connect.clusters import Clusters
from seamark.core.readings import Reading
from seamark.core.refs import render_group
from seamark.errors import NotFoundError, RefusedError, SeamarkError, UsageError
from seamark.groups.actions import DeleteGroup, MoveGroup, build_positions
from seamark.groups.lag import GroupEntry, GroupOwners, GroupReport, count_lag, pick_delays, read_delays, read_owners
from seamark.groups.targets import (
    CURRENT,
    Chosen,
    clamp,
    parse_length,
    parse_topic,
    parse_where,
    read_back,
    read_current,
    read_export,
    read_spots,
    read_targets,
    shift,
)
from seamark.kafka.groups import Committed, Group, GroupOffsets, GroupType, count_members
from seamark.kafka.model import TopicPartition

if TYPE_CHECKING:
    from seamark.changes.environment import Clock
    from seamark.kafka.api import BrokersPort

_NO_GROUP = "DEAD"


class Groups:
    """The consumer groups of a context. Every change is a plan, which `fleet.apply` applies."""

    def __init__(
        self, *, clusters: Clusters, kafka: Callable[[], BrokersPort], clock: Clock, planner: Callable[[], Planner]
    ) -> None:
        self._clusters = clusters
        self._open_kafka = kafka
        self._clock = clock
        self._planner = planner

    def list(self) -> Reading[GroupEntry]:
        """Return every group, by name; groups of sinks with their connector. Share groups are listed, never changed."""
        listings = self._kafka.read_all_groups()
        owners = read_owners(self._clusters)
        sinks = owners.sinks
        entries = tuple(
            GroupEntry(found, owners.find(found.name)) if found.name in sinks else GroupEntry(found)
            for found in listings.items
        )
        return Reading(entries, failures={**listings.failures, **owners.failures})

    def get(self, name: str) -> GroupReport:
        """Return one group with its members, committed offsets and lag."""
        self._refuse_share(name, doing="shown with offsets")
        group, committed = self._read(name), self._read_committed(name)
        if group.state == _NO_GROUP and not committed:
            raise _build_missing(name)
        bounds = self._kafka.read_bounds(committed)
        ends = {spot: found.latest for spot, found in bounds.found.items()}
        behind = [(spot, held.offset) for spot, held in committed.items() if count_lag(held, ends.get(spot))]
        now_ms = round(self._clock.now() * 1000)
        delays = pick_delays(committed, read_delays(self._kafka, behind, ends, now_ms=now_ms) if behind else {})
        owners = read_owners(self._clusters)
        notes = [f"{topic}-{number}: {error.message}" for (topic, number), error in bounds.failures.items()]
        notes += [
            f"the connector of the group may be missing here: {error.message}" for error in owners.failures.values()
        ]
        return GroupReport(
            group, owners.find(name), offsets=committed, bounds=bounds.found, delays=delays, notes=tuple(notes)
        )

    def move(
        self,
        name: str,
        *,
        to: str | int | datetime | None = None,
        back: float | str | timedelta | None = None,
        shift: int | None = None,
        source: str | Path | None = None,
        topics: Sequence[str] = (),
    ) -> PlannedChange:
        """Plan other committed offsets for a group. Exactly one of `to`, `back`, `shift` and `source` gives the target.

        `to` is `earliest`, `latest`, `current`, an offset, a time, or `-1h` for one hour before now. `back` is a
        duration of record time before the committed offset. `shift` is a number of records, ahead or back. `source` is
        another group's name, or the Path of an export. `topics` are `TOPIC` or `TOPIC:0,1`; without them all committed
        offsets are moved. Offsets stay within the log.

        Raises:
            RefusedError: the group has members, or it is a share group.
        """
        if sum(way is not None for way in (to, back, shift, source)) != 1:
            raise UsageError("pass exactly one of --to, --back, --shift, --from-file, --from-group")
        chosen = [parse_topic(text) for text in topics]
        owners = self._prepare(name)
        committed = self._read_committed(name)
        if source is not None:
            targets = self._read_source(name, source, chosen)
        else:
            spots = read_spots(self._kafka, chosen, committed)
            if not spots:
                raise _build_missing(name)
            targets = self._find_targets(spots, committed, to=to, back=back, by=shift)
        step = MoveGroup(name, build_positions(sorted(targets), _build_commits(targets, committed)))
        new = () if committed else (f"{render_group(name)} has no committed offsets yet: it starts from these",)
        return self._build(f"move {render_group(name)}", name, step, owners=owners, notes=new)

    def delete(self, name: str) -> PlannedChange:
        """Plan to delete a group with all its committed offsets. Undo commits the same offsets again."""
        owners = self._prepare(name)
        if self._read(name).state == _NO_GROUP and not self._read_committed(name):
            raise _build_missing(name)
        sink = owners.find(name)
        notes = (
            (f"the next start of connector/{sink} uses auto.offset.reset (earliest by default for sinks)",)
            if sink
            else ()
        )
        return self._build(f"delete {render_group(name)}", name, DeleteGroup(name), owners=owners, notes=notes)

    def place(
        self, name: str, targets: Mapping[TopicPartition, int | None], *, topics: Sequence[str] = ()
    ) -> PlannedChange:
        """Plan these committed offsets for a group, within the log; None deletes one. `topics` are as for `move`."""
        chosen = [parse_topic(text) for text in topics]
        wanted = {spot: at for spot, at in targets.items() if _is_chosen(spot, chosen)}
        if not wanted:
            raise NotFoundError(f"the given offsets contain none for group {name}")
        owners = self._prepare(name)
        committed = self._read_committed(name)
        placed = clamp(self._kafka, {spot: at for spot, at in wanted.items() if at is not None})
        step = MoveGroup(name, build_positions(sorted(wanted), _build_commits(placed, committed)))
        return self._build(f"move {render_group(name)}", name, step, owners=owners)

    def forget(self, name: str, *, topics: Sequence[str]) -> PlannedChange:
        """Plan to delete a group's committed offsets on these topics."""
        spots = read_spots(self._kafka, [parse_topic(text) for text in topics], {})
        committed = self._read_committed(name)
        return self.place(name, {spot: None for spot in spots if spot in committed})

    @property
    def _kafka(self) -> BrokersPort:
        return self._open_kafka()

    def _find_targets(
        self,
        spots: Sequence[TopicPartition],
        committed: Mapping[TopicPartition, Committed],
        *,
        to: str | int | datetime | None,
        back: float | str | timedelta | None,
        by: int | None,
    ) -> dict[TopicPartition, int]:
        if by is not None:
            return shift(self._kafka, spots, committed, by)
        if back is not None:
            return read_back(self._kafka, spots, committed, seconds=parse_length(back), now=self._clock.now())
        if to == CURRENT:
            return read_current(self._kafka, spots, committed)
        return read_targets(self._kafka, spots, parse_where(to if to is not None else "", now=self._clock.now()))

    def _read_source(self, name: str, source: str | Path, chosen: Sequence[Chosen]) -> dict[TopicPartition, int]:
        if isinstance(source, Path):
            offsets = read_export(source, group=name)
        else:
            offsets = {spot: commit.offset for spot, commit in self._read_committed(source).items()}
        wanted = {spot: at for spot, at in offsets.items() if _is_chosen(spot, chosen)}
        if not wanted:
            what = f"{source}" if isinstance(source, Path) else f"group {source}"
            raise NotFoundError(
                f"{what} has no offsets for these topic partitions", hint="list them with seamark groups show GROUP"
            )
        return clamp(self._kafka, wanted)

    def _prepare(self, name: str) -> GroupOwners:
        """Refuse a group that must not be changed; return the owners of all groups."""
        self._refuse_share(name, doing="moved or deleted")
        owners = read_owners(self._clusters)
        group = self._read(name)
        if not group.is_quiet:
            sink = owners.find(name)
            stop = f"seamark connectors stop {sink.replace(',', '')}" if sink else "stop its members"
            raise RefusedError(
                f"group {name} is in use; no changes were made",
                cause=f"the group is {group.state} with {count_members(len(group.members))}"
                + (f"; it belongs to connector/{sink}" if sink else ""),
                hint=f"{stop}, because the next commit of a member would overwrite the change",
                context={"group": name},
            )
        return owners

    def _refuse_share(self, name: str, *, doing: str) -> None:
        listings = self._kafka.read_all_groups()
        for found in listings.items:
            if found.name == name and found.type is GroupType.SHARE:
                raise RefusedError(
                    f"{name} is a share group, which can't be {doing}",
                    cause="a share group has no committed offsets to compare or restore",
                    hint="use kafka-share-groups.sh",
                )

    def _read(self, name: str) -> Group:
        reading = self._kafka.read_members([name])
        for error in reading.failures.values():
            if isinstance(error, NotFoundError):
                return Group(name, _NO_GROUP, GroupType.UNKNOWN, "", "", None)
            raise error
        return reading.items[0]

    def _read_committed(self, name: str) -> Mapping[TopicPartition, Committed]:
        reading: Reading[GroupOffsets] = self._kafka.read_committed({name: None}, only_stable=True)
        for error in reading.failures.values():
            if isinstance(error, NotFoundError):
                return {}
            raise error
        return reading.items[0].offsets

    def _build(
        self, title: str, name: str, step: Action, *, owners: GroupOwners, notes: tuple[str, ...] = ()
    ) -> PlannedChange:
        sink = owners.find(name)
        whose = (f"the group belongs to connector/{sink}",) if sink else ()
        unknown = tuple(_say_unknown(where, error) for where, error in owners.failures.items())
        return self._planner().plan(title, [step], notes=(*whose, *notes, *unknown))


def _is_chosen(spot: TopicPartition, chosen: Sequence[Chosen]) -> bool:
    return not chosen or any(spot[0] == one.topic and spot[1] in (one.partitions or spot[1:]) for one in chosen)


def _build_commits(
    targets: Mapping[TopicPartition, int], committed: Mapping[TopicPartition, Committed]
) -> dict[TopicPartition, Committed]:
    """Build the commits to make. A commit that already has the target offset is kept with its metadata."""
    return {
        spot: held if (held := committed.get(spot)) is not None and held.offset == at else Committed(at)
        for spot, at in targets.items()
    }


def _build_missing(name: str) -> NotFoundError:
    return NotFoundError(
        f"group {name} does not exist and has no committed offsets",
        hint="list groups with seamark groups list; for a new group, pass its topics with --topic",
        context={"group": name},
    )


def _say_unknown(where: str, error: SeamarkError) -> str:
    return f"can't determine whether it is the group of a sink in {where}: {error.message}"
