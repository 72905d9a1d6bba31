"""Consumer groups: reading, moving and deleting them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from seamark.changes.action import Action
from seamark.changes.plan import PlannedChange
from seamark.changes.planner import Planner
from seamark.connect.clusters import Clusters
from seamark.core.readings import Reading, fan_out
from seamark.core.refs import render_group
from seamark.errors import NotFoundError, RefusedError, SeamarkError, UsageError
from seamark.groups.actions import DeleteGroup, MoveGroup, build_positions
from seamark.groups.csv_file import OffsetFile, read_offset_file
from seamark.groups.lag import GroupEntry, GroupOwners, GroupReport, count_lag, pick_delays, read_delays, read_owners
from seamark.groups.targets import (
    CURRENT,
    Chosen,
    clamp,
    is_pattern,
    parse_length,
    parse_topic,
    parse_where,
    read_back,
    read_current,
    read_spots,
    read_targets,
    shift,
)
from seamark.kafka.groups import Committed, Group, GroupOffsets, GroupType, count_members
from seamark.kafka.model import TopicPartition
from seamark.report.words import render_count

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

    def export(self, names: Sequence[str]) -> dict[str, Mapping[TopicPartition, int]]:
        """Return the committed offsets of groups, given by names and globs: what `groups export` writes as CSV."""
        chosen = self._choose(names, doing="exported")
        for name, found in chosen.committed.items():
            if not found:
                raise _build_missing(name)
        return {name: {spot: held.offset for spot, held in found.items()} for name, found in chosen.committed.items()}

    def move(
        self,
        name: str | Sequence[str],
        *,
        to: str | int | datetime | None = None,
        back: float | str | timedelta | None = None,
        shift: int | None = None,
        source: str | Path | None = None,
        topics: Sequence[str] = (),
    ) -> PlannedChange:
        """Plan other committed offsets for a group. Exactly one of `to`, `back`, `shift` and `source` gives the target.

        `name` is a group, or several names and globs: one plan with one action for each group. A glob selects groups
        that have committed offsets (on `topics`, if given), or the groups that a file names. `to` is `earliest`,
        `latest`, `current`, an offset, a time, or `-1h` for one hour before now. `back` is a duration of record time
        before the committed offset. `shift` is a number of records, ahead or back. `source` is another group's name,
        or the Path of an export. `topics` are `TOPIC` or `TOPIC:0,1`; without them all committed offsets are moved.
        Offsets stay within the log.

        Raises:
            RefusedError: a group has members, or it is a share group; or no offset can be determined for one of them.
        """
        if sum(way is not None for way in (to, back, shift, source)) != 1:
            raise UsageError("pass exactly one of --to, --back, --shift, --from-file, --from-group")
        spots_of = [parse_topic(text) for text in topics]
        file = read_offset_file(source) if isinstance(source, Path) else None
        notes: tuple[str, ...] = ()
        if isinstance(name, str):
            names: tuple[str, ...] = (name,)
            self._refuse_share(name, doing="moved or deleted")
        else:
            chosen = _choose_from(file, name) if file else self._choose(name, doing="moved", topics=spots_of)
            names, notes = tuple(chosen.committed), chosen.notes
        owners = self._prepare(names)
        committed = self._read_all_committed(names)

        def build(one: str) -> MoveGroup:
            held = committed[one]
            if source is not None:
                targets = clamp(self._kafka, self._read_source(one, file or str(source), spots_of))
            elif spots := read_spots(self._kafka, spots_of, held):
                targets = self._find_targets(spots, held, to=to, back=back, by=shift)
            else:
                raise _build_missing(one)
            return MoveGroup(one, build_positions(sorted(targets), _build_commits(targets, held)))

        steps = _build_all(names, build)
        new = [one for one in names if not committed[one]]
        notes += tuple(f"{render_group(one)} has no committed offsets yet: it starts from these" for one in new)
        title = f"move {render_group(names[0])}" if len(names) == 1 else f"move {render_count(len(names), 'group')}"
        return self._build(title, names, steps, owners=owners, notes=notes)

    def delete(self, name: str) -> PlannedChange:
        """Plan to delete a group with all its committed offsets. Undo commits the same offsets again."""
        self._refuse_share(name, doing="moved or deleted")
        owners = self._prepare([name])
        if self._read(name).state == _NO_GROUP and not self._read_committed(name):
            raise _build_missing(name)
        sink = owners.find(name)
        notes = (
            (f"the next start of connector/{sink} uses auto.offset.reset (earliest by default for sinks)",)
            if sink
            else ()
        )
        return self._build(f"delete {render_group(name)}", [name], [DeleteGroup(name)], owners=owners, notes=notes)

    def place(
        self, name: str, targets: Mapping[TopicPartition, int | None], *, topics: Sequence[str] = ()
    ) -> PlannedChange:
        """Plan these committed offsets for a group, within the log; None deletes one. `topics` are as for `move`."""
        chosen = [parse_topic(text) for text in topics]
        wanted = {spot: at for spot, at in targets.items() if _is_chosen(spot, chosen)}
        if not wanted:
            raise NotFoundError(f"the given offsets contain none for group {name}")
        self._refuse_share(name, doing="moved or deleted")
        owners = self._prepare([name])
        committed = self._read_committed(name)
        placed = clamp(self._kafka, {spot: at for spot, at in wanted.items() if at is not None})
        step = MoveGroup(name, build_positions(sorted(wanted), _build_commits(placed, committed)))
        return self._build(f"move {render_group(name)}", [name], [step], owners=owners)

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

    def _read_source(self, name: str, source: str | OffsetFile, chosen: Sequence[Chosen]) -> dict[TopicPartition, int]:
        if isinstance(source, OffsetFile):
            what, offsets = str(source.path), source.find_offsets(name)
        else:
            what = f"group {source}"
            offsets = {spot: commit.offset for spot, commit in self._read_committed(source).items()}
        wanted = {spot: at for spot, at in offsets.items() if _is_chosen(spot, chosen)}
        if not wanted:
            raise NotFoundError(
                f"{what} has no offsets for these topic partitions", hint="list them with seamark groups show GROUP"
            )
        return wanted

    def _choose(self, patterns: Sequence[str], *, doing: str, topics: Sequence[Chosen] = ()) -> _Choice:
        """Return the groups of names and globs with what they have committed. A glob selects no group without any."""
        listings = {found.name: found for found in self._kafka.read_all_groups().require_complete(what="the groups")}
        plain = [name for name in patterns if name in listings or not is_pattern(name)]
        for name in plain:
            if name in listings and not listings[name].has_offsets:
                raise _build_share_error(name, doing=doing)
        fitting = [name for name in listings if name not in plain and any(fnmatchcase(name, one) for one in patterns)]
        names = [name for name in fitting if listings[name].has_offsets]
        committed = self._read_all_committed((*plain, *names))
        empty = [name for name in names if not any(_is_chosen(spot, topics) for spot in committed[name])]
        notes = [f"{render_group(name)} is a share group and is not {doing}" for name in fitting if name not in names]
        if empty:
            where = " on these topics" if topics else ""
            notes.append(f"not {doing}, because nothing is committed{where}: {', '.join(sorted(empty))}")
        chosen = {name: committed[name] for name in sorted({*plain, *names} - {*empty})}
        if not chosen:
            raise NotFoundError(
                f"no group with committed offsets matches {', '.join(patterns)}", hint="run: seamark groups list"
            )
        return _Choice(chosen, tuple(sorted(notes)))

    def _prepare(self, names: Sequence[str]) -> GroupOwners:
        """Refuse groups that must not be changed; return the owners of all groups."""
        owners = read_owners(self._clusters)
        busy = [group for group in self._read_all(names) if not group.is_quiet]
        if not busy:
            return owners
        stops, causes = [], []
        for group in busy:
            sink = owners.find(group.name)
            stops.append(f"seamark connectors stop {sink.replace(',', '')}" if sink else "stop its members")
            causes.append(
                f"the group is {group.state} with {count_members(len(group.members))}"
                + (f"; it belongs to connector/{sink}" if sink else "")
            )
        if len(names) == 1:
            raise RefusedError(
                f"group {busy[0].name} is in use; no changes were made",
                cause=causes[0],
                hint=f"{stops[0]}, because the next commit of a member would overwrite the change",
                context={"group": busy[0].name},
            )
        raise RefusedError(
            f"{len(busy)} of {len(names)} groups are in use; no changes were made",
            cause="; ".join(f"{group.name}: {cause}" for group, cause in zip(busy, causes, strict=True)),
            hint=f"{'; '.join(dict.fromkeys(stops))}, because the next commit of a member would overwrite the change",
        )

    def _refuse_share(self, name: str, *, doing: str) -> None:
        if any(found.name == name and not found.has_offsets for found in self._kafka.read_all_groups().items):
            raise _build_share_error(name, doing=doing)

    def _read(self, name: str) -> Group:
        return self._read_all([name])[0]

    def _read_all(self, names: Sequence[str]) -> tuple[Group, ...]:
        """Read groups in this order; one that doesn't exist is DEAD."""
        reading = self._kafka.read_members(list(names))
        for error in reading.failures.values():
            if not isinstance(error, NotFoundError):
                raise error
        found = {group.name: group for group in reading.items}
        missing = {name: Group(name, _NO_GROUP, GroupType.UNKNOWN, "", "", None) for name in names}
        return tuple((missing | found)[name] for name in names)

    def _read_committed(self, name: str) -> Mapping[TopicPartition, Committed]:
        return self._read_all_committed([name])[name]

    def _read_all_committed(self, names: Sequence[str]) -> dict[str, Mapping[TopicPartition, Committed]]:
        reading: Reading[GroupOffsets] = self._kafka.read_committed(dict.fromkeys(names), only_stable=True)
        for error in reading.failures.values():
            if not isinstance(error, NotFoundError):
                raise error
        found = {held.group: held.offsets for held in reading.items}
        return {name: found.get(name, {}) for name in names}

    def _build(
        self,
        title: str,
        names: Sequence[str],
        steps: Sequence[Action],
        *,
        owners: GroupOwners,
        notes: tuple[str, ...] = (),
    ) -> PlannedChange:
        whose = [
            f"{'the group' if len(names) == 1 else render_group(name)} belongs to connector/{sink}"
            for name in names
            if (sink := owners.find(name))
        ]
        unknown = tuple(_say_unknown(where, error) for where, error in owners.failures.items())
        return self._planner().plan(title, steps, notes=(*whose, *notes, *unknown))


@dataclass(frozen=True, slots=True)
class _Choice:
    """The selected groups with their committed offsets, and notes about those that were left out."""

    committed: Mapping[str, Mapping[TopicPartition, Committed]]
    notes: tuple[str, ...] = ()


def _choose_from(file: OffsetFile, patterns: Sequence[str]) -> _Choice:
    """Return the groups of a file that names and globs select; they may not exist yet in this Kafka cluster."""
    if not file.groups:
        raise UsageError(
            f"{file.path} has no group column, so it is for one group",
            hint="pass one group, or write lines of group,topic,partition,offset",
        )
    if missing := [name for name in patterns if name not in file.groups and not is_pattern(name)]:
        raise NotFoundError(f"{file.path} has no offsets for group {', '.join(missing)}")
    chosen = [name for name in file.groups if any(name == one or fnmatchcase(name, one) for one in patterns)]
    if not chosen:
        raise NotFoundError(f"no group in {file.path} matches {', '.join(patterns)}")
    return _Choice({name: {} for name in sorted(chosen)})


def _build_all(names: Sequence[str], build: Callable[[str], MoveGroup]) -> list[MoveGroup]:
    """Build the steps of all groups, or raise one error for all that have none."""
    answers = fan_out({name: partial(build, name) for name in names})
    for error in answers.failures.values():
        if len(names) == 1:
            raise error
        raise RefusedError(
            f"{len(answers.failures)} of {len(names)} groups can't be moved; no changes were made",
            cause="; ".join(f"{name}: {found.message}" for name, found in answers.failures.items()),
            hint="pass the groups to move, or --topic",
        )
    return [answers.results[name] for name in names]


def _build_share_error(name: str, *, doing: str) -> RefusedError:
    return RefusedError(
        f"{name} is a share group, which can't be {doing}",
        cause="a share group has no committed offsets to compare or restore",
        hint="use kafka-share-groups.sh",
    )


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
