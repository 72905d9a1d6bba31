"""Lag of every group and every sink: a few calls for all of them, none per partition."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import sqrt

from seamark.connect.clusters import Clusters
from seamark.connect.config import find_group
from seamark.core.readings import Reading, Severity
from seamark.core.refs import (
    EVERY_OWNER,
    ConnectorType,
    OwnerPatterns,
    build_group_owner,
    build_pipeline_owner,
    find_mirror,
    is_mirror,
)
from seamark.errors import NotFoundError, SeamarkError, UsageError
from seamark.kafka.api import BrokersPort
from seamark.kafka.groups import Committed, Group, GroupListing, GroupType
from seamark.kafka.model import LogOffsets, OffsetAndTimestamp, OffsetSpec, TopicPartition


@dataclass(frozen=True, slots=True)
class GroupOwners:
    """Sinks and Connect cluster of each group, all sources, and the Connect clusters that didn't respond."""

    sinks: Mapping[str, tuple[str, ...]]
    clusters: Mapping[str, str]
    failures: Mapping[str, SeamarkError]
    sources: frozenset[str] = frozenset()

    def find(self, group: str) -> str:
        """Return the sinks of a group as one text; "" if it isn't the group of a known sink."""
        return ", ".join(self.sinks.get(group, ()))

    def list_owners(self, group: str) -> tuple[str, ...]:
        """Return all owners by which the offsets of a group can be named: the group, its sinks, its pipeline."""
        pipelines = (build_pipeline_owner(group.removeprefix(find_mirror(""))),) if is_mirror(group) else ()
        return (build_group_owner(group), *self.sinks.get(group, ()), *pipelines)


def read_owners(clusters: Clusters) -> GroupOwners:
    """Read the sinks and sources of every Connect cluster."""
    answers = clusters.ask(lambda client: client.read_connectors())
    sinks: dict[str, list[str]] = {}
    found_in: dict[str, str] = {}
    for name, connectors in answers.results.items():
        settings = clusters.settings(name)
        for connector in connectors:
            if connector.type is ConnectorType.SINK:
                group = find_group(connector.name, connector.config, settings)
                sinks.setdefault(group, []).append(connector.owner)
                found_in[group] = name
    everything = [connector for connectors in answers.results.values() for connector in connectors]
    return GroupOwners(
        {group: tuple(found) for group, found in sinks.items()},
        found_in,
        answers.failures,
        sources=frozenset(connector.owner for connector in everything if connector.type is ConnectorType.SOURCE),
    )


@dataclass(frozen=True, slots=True)
class GroupEntry:
    """A group in the list of all groups. `connector` is the sink that owns it, CLUSTER/NAME, or ""."""

    listing: GroupListing
    connector: str = ""

    @property
    def name(self) -> str:
        """The group's name."""
        return self.listing.name


@dataclass(frozen=True, slots=True)
class Delay:
    """How long the next record to read has been in the log, by its timestamp. Exact to the ms, or to a few percent."""

    seconds: float
    is_exact: bool = True


@dataclass(frozen=True, slots=True)
class GroupReport:
    """One group with its members and committed offsets. `bounds` lacks the partitions that couldn't be read.

    `delays` has the partitions with lag for which the brokers returned timestamps.
    """

    group: Group
    connector: str = ""
    offsets: Mapping[TopicPartition, Committed] = field(default_factory=dict)
    bounds: Mapping[TopicPartition, LogOffsets] = field(default_factory=dict)
    delays: Mapping[TopicPartition, Delay] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The group's name."""
        return self.group.name

    @property
    def lag(self) -> Mapping[TopicPartition, int | None]:
        """The lag in records, by partition; None if the end of the log couldn't be read."""
        ends = {spot: found.latest for spot, found in self.bounds.items()}
        return {spot: count_lag(commit, ends.get(spot)) for spot, commit in sorted(self.offsets.items())}


@dataclass(frozen=True, slots=True)
class GroupLag:
    """The lag of one group: `lag` by partition, None if the end of its log couldn't be read.

    `state` is Kafka's term. A sink that never committed has no partitions; its state is DEAD. `delays` has the
    partitions with lag for which the brokers returned timestamps.
    """

    name: str
    state: str
    type: GroupType
    connector: str = ""
    lag: Mapping[TopicPartition, int | None] = field(default_factory=dict)
    delays: Mapping[TopicPartition, Delay] = field(default_factory=dict)

    @property
    def total(self) -> int | None:
        """The total lag in records over all known partitions; None if none is known."""
        known = [count for count in self.lag.values() if count is not None]
        return sum(known) if known else None

    @property
    def worst(self) -> tuple[TopicPartition, int] | None:
        """The partition with the largest lag, and that lag."""
        known = [(count, spot) for spot, count in self.lag.items() if count is not None]
        if not known:
            return None
        count, spot = max(known)
        return spot, count

    @property
    def delay(self) -> Delay | None:
        """How long the oldest unread record has been in the log; None if that couldn't be read."""
        if self.delays:
            return max(self.delays.values(), key=lambda found: found.seconds)
        return Delay(0.0) if self.total == 0 and not self.unknown else None

    @property
    def unknown(self) -> int:
        """The number of partitions that couldn't be read."""
        return sum(count is None for count in self.lag.values())


@dataclass(frozen=True, slots=True)
class LagLimit:
    """The largest acceptable lag of a consumer: in records, or as the age of the next record in seconds."""

    records: int | None = None
    seconds: float | None = None

    def rate(self, found: GroupLag) -> Severity:
        """Return ERROR for a lag above the limit, WARNING for one that can't be compared completely, else OK."""
        delay = found.delay
        if self.records is not None:
            is_above, is_known = (found.total or 0) > self.records, bool(found.lag) and not found.unknown
        else:
            is_above = self.seconds is not None and delay is not None and delay.seconds > self.seconds
            is_known = bool(found.lag) and all(lag == 0 or spot in found.delays for spot, lag in found.lag.items())
        return Severity.ERROR if is_above else Severity.OK if is_known else Severity.WARNING


def count_lag(commit: Committed, end: int | None) -> int | None:
    """Return the records from a commit to the end; 0 for a commit after the end, as in a recreated topic."""
    return None if end is None else max(0, end - commit.offset)


# Brokers return the first record at or after a timestamp, for many partitions in one request per broker (ListOffsets).
# They don't return the timestamp of an offset. So the timestamp is searched for: the first guess is a linear
# interpolation from the first record to now, and each answer narrows the interval. A log that was written steadily
# takes three or four rounds, each of them one request per broker, however many partitions there are. The alternative,
# to fetch the record, would fetch a whole batch from every partition with lag.

Reader = tuple[TopicPartition, int]
"""A partition and the next offset that a consumer reads from it."""

# Rounds in which a steadily written log is resolved, with a margin; a partition with many consumers gets more rounds.
_ROUNDS_FOR_ONE = 6
_MOST_ROUNDS = 40
# Precise enough: people read "2 h", and a second is as good as no delay.
_NEAR_MS = 1000
_NEAR_SHARE = 0.02
# Delays that are less precise than this aren't reported.
_ROUGH_SHARE = 0.25
_EARLIEST_MS = 0
# Every second round halves the time that is open: enough for a thousand years in ms.
_MOST_EXACT_ROUNDS = 100


@dataclass(slots=True)
class _Search:
    """The interval of times and offsets that contains the next record of one consumer.

    `low_ms` is the time of a record at or before it, `high_ms` is a time that only later records have.
    """

    offset: int
    low_ms: int
    low_offset: int
    high_ms: int
    high_offset: int
    is_exact: bool = False

    def take(self, at_ms: int, stamp: OffsetAndTimestamp | None) -> None:
        """Narrow the interval by the first record at or after a time; None if there is no such record."""
        if stamp is None or stamp.timestamp_ms is None or stamp.offset > self.offset:
            if at_ms < self.high_ms:
                self.high_ms = at_ms
                self.high_offset = min(self.high_offset, stamp.offset) if stamp is not None else self.high_offset
        elif stamp.timestamp_ms >= self.low_ms:
            self.low_ms, self.low_offset = stamp.timestamp_ms, stamp.offset
            self.is_exact = self.is_exact or stamp.offset == self.offset

    @property
    def is_found(self) -> bool:
        """Whether the time is known to the ms. Several records may have the same timestamp."""
        return self.is_exact or self.high_ms - self.low_ms <= 1

    def is_within(self, share: float, now_ms: int) -> bool:
        """Return whether the time is known with an error of at most that share of its age."""
        open_ms = self.high_ms - self.low_ms
        return self.is_found or open_ms <= max(_NEAR_MS, share * (now_ms - self.low_ms))

    def halve(self) -> int:
        """Return the middle of the time that is open."""
        return min(max((self.low_ms + self.high_ms) // 2, self.low_ms + 1), self.high_ms - 1)

    def guess(self, number: int, now_ms: int) -> int:
        """Return the time to query next."""
        if number % 2:
            # A log that was written in bursts isn't linear: every second round splits the age at its geometric mean.
            low, high = max(1.0, now_ms - self.low_ms), max(1.0, now_ms - self.high_ms)
            guess = now_ms - round(sqrt(low * high))
        else:
            # Half a record early: the record is the first one for any time after the record before it.
            share = (self.offset - 0.5 - self.low_offset) / max(1, self.high_offset - self.low_offset)
            guess = self.low_ms + round(share * (self.high_ms - self.low_ms))
        return min(max(guess, self.low_ms + 1), self.high_ms - 1)


def read_delays(
    kafka: BrokersPort, readers: Collection[Reader], ends: Mapping[TopicPartition, int], *, now_ms: int
) -> dict[Reader, Delay]:
    """Return how long the next record of each reader has been in the log; unknown ones are omitted.

    The readers have lag: their offsets are before the end of the log. The result is based on the latest timestamp up to
    that offset, so timestamps out of order make a delay too short, never too long.
    """
    first = kafka.read_offsets_at(dict.fromkeys((spot for spot, _ in readers), _EARLIEST_MS)).found
    searches: dict[TopicPartition, list[_Search]] = {}
    for spot, offset in dict.fromkeys(readers):
        stamp = first.get(spot)
        if stamp is not None and stamp.timestamp_ms is not None:
            search = _Search(offset, stamp.timestamp_ms, stamp.offset, max(now_ms, stamp.timestamp_ms) + 1, ends[spot])
            # A committed offset before the first record continues with the first record.
            search.is_exact = offset <= stamp.offset
            searches.setdefault(spot, []).append(search)
    _narrow(kafka, searches, now_ms=now_ms)
    return {
        (spot, search.offset): Delay(max(0, now_ms - search.low_ms) / 1000, is_exact=search.is_found)
        for spot, found in searches.items()
        for search in found
        if search.is_within(_ROUGH_SHARE, now_ms)
    }


def read_record_times(
    kafka: BrokersPort,
    offsets: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    *,
    now_ms: int,
) -> dict[TopicPartition, int]:
    """Return the record time at each offset in milliseconds, never later than it is.

    At the end of the log it is the time of the newest record. A partition whose time can't be determined is missing.
    """
    behind = {spot: at for spot, at in offsets.items() if at < ends[spot]}
    first = kafka.read_offsets_at(dict.fromkeys(behind, _EARLIEST_MS)).found if behind else {}
    searches: dict[TopicPartition, _Search] = {}
    for spot, stamp in first.items():
        if stamp is not None and stamp.timestamp_ms is not None:
            latest_ms = max(now_ms, stamp.timestamp_ms) + 1
            searches[spot] = _Search(behind[spot], stamp.timestamp_ms, stamp.offset, latest_ms, ends[spot])
            searches[spot].is_exact = behind[spot] <= stamp.offset
    for number in range(_MOST_EXACT_ROUNDS):
        asked = {
            spot: one.halve() if number % 2 else one.guess(0, now_ms)
            for spot, one in searches.items()
            if not one.is_found
        }
        if not asked:
            break
        for spot, stamp in kafka.read_offsets_at(asked).require_complete(what="the record times").items():
            searches[spot].take(asked[spot], stamp)
    times = {spot: one.low_ms for spot, one in searches.items() if one.is_found}
    if at_end := [spot for spot, at in offsets.items() if at >= ends[spot]]:
        newest = kafka.read_log_offsets(at_end, at=OffsetSpec.NEWEST).found
        times |= {
            spot: stamp.timestamp_ms
            for spot, stamp in newest.items()
            if stamp is not None and stamp.timestamp_ms is not None
        }
    return times


def _narrow(kafka: BrokersPort, searches: Mapping[TopicPartition, list[_Search]], *, now_ms: int) -> None:
    """Query in rounds, one time per partition, until all is precise enough. Each answer helps all readers."""
    most = min(_MOST_ROUNDS, _ROUNDS_FOR_ONE * max(map(len, searches.values()), default=0))
    left = dict(searches)
    for number in range(most):
        left = {spot: waiting for spot, found in left.items() if (waiting := _find_waiting(found, now_ms))}
        if not left:
            return
        times = {spot: waiting[0].guess(number, now_ms) for spot, waiting in left.items()}
        answers = kafka.read_offsets_at(times).found
        for spot, stamp in answers.items():
            for search in left[spot]:
                search.take(times[spot], stamp)
        left = {spot: waiting for spot, waiting in left.items() if spot in answers}


def _find_waiting(found: Collection[_Search], now_ms: int) -> list[_Search]:
    return [search for search in found if not search.is_within(_NEAR_SHARE, now_ms)]


_NO_GROUP = "DEAD"


def read_lag(
    kafka: BrokersPort,
    clusters: Clusters,
    *,
    now: float,
    with_seconds: bool = True,
    only: OwnerPatterns = EVERY_OWNER,
) -> Reading[GroupLag]:
    """Return the lag in records and seconds, the largest first. See `read_delays` for the cost of seconds.

    Only the groups of the owners in `only` are read; one that isn't a consumer is in `failures`.
    """
    return read_owned_lag(kafka, read_owners(clusters), now=now, with_seconds=with_seconds, only=only)


def read_owned_lag(
    kafka: BrokersPort,
    owners: GroupOwners,
    *,
    now: float,
    with_seconds: bool = True,
    only: OwnerPatterns = EVERY_OWNER,
) -> Reading[GroupLag]:
    """Return the lag as `read_lag` does, without asking Connect whose groups they are."""
    listings = kafka.read_consumer_groups()
    known_groups = dict.fromkeys([*(found.name for found in listings.items), *owners.sinks])
    chosen = {group for group in known_groups if any(map(only.matches, owners.list_owners(group)))}
    wanted = {found.name: None for found in listings.items if found.has_offsets and found.name in chosen}
    committed = kafka.read_committed(wanted, with_metadata=False)
    spots = dict.fromkeys(spot for group in committed.items for spot in group.offsets)
    ends = kafka.read_log_offsets(spots, at=OffsetSpec.LATEST)
    known = {spot: stamp.offset for spot, stamp in ends.found.items() if stamp is not None}
    readers = {
        (spot, commit.offset): None
        for group in committed.items
        for spot, commit in group.offsets.items()
        if count_lag(commit, known.get(spot))
    }
    delays = read_delays(kafka, readers, known, now_ms=round(now * 1000)) if with_seconds and readers else {}
    listed = {found.name: found for found in listings.items}
    lags = [
        GroupLag(
            found.group,
            state=listed[found.group].state,
            type=listed[found.group].type,
            connector=owners.find(found.group),
            lag={spot: count_lag(commit, known.get(spot)) for spot, commit in sorted(found.offsets.items())},
            delays=pick_delays(found.offsets, delays),
        )
        for found in committed.items
    ]
    # A sink that never committed isn't in the list of groups; its lag is the whole log.
    new = [group for group in owners.sinks if group not in listed and group in chosen]
    lags += [GroupLag(group, _NO_GROUP, GroupType.UNKNOWN, owners.find(group)) for group in new]
    failures = {**listings.failures, **committed.failures, **owners.failures}
    if not failures:
        failures = _explain_missing(only, owners, known_groups)
    return Reading(tuple(sorted(lags, key=_rank)), failures=failures)


def _explain_missing(only: OwnerPatterns, owners: GroupOwners, groups: Collection[str]) -> dict[str, SeamarkError]:
    """Return an error for each owner that isn't a consumer: a source, or a misspelled name."""
    found: dict[str, SeamarkError] = {}
    for text in only.find_missing({owner for group in groups for owner in owners.list_owners(group)}):
        if any(OwnerPatterns((text,)).matches(source) for source in owners.sources):
            found[text] = UsageError(f"connector {text} is a source", hint=f"run: seamark lag --sources {text}")
        elif text in groups:
            found[text] = NotFoundError(f"connector {text} does not exist", hint=f"pass the group: group/{text}")
        else:
            found[text] = NotFoundError(
                f"{text} has no lag: no such sink, group or pipeline", hint="list all: seamark lag"
            )
    return found


def pick_delays(
    offsets: Mapping[TopicPartition, Committed], delays: Mapping[Reader, Delay]
) -> dict[TopicPartition, Delay]:
    """Return the delays of one group."""
    return {spot: delay for spot, commit in offsets.items() if (delay := delays.get((spot, commit.offset))) is not None}


def _rank(found: GroupLag) -> tuple[int, str]:
    total = found.total
    return -(total if total is not None else -1), found.name
