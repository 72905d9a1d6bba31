"""How far every group and every sink is behind: a few calls for all of them, none for each partition."""

from __future__ import annotations

from collections.abc import Mapping

from seamark.connect.clusters import Clusters
from seamark.core.reading import Reading
from seamark.groups.delays import Reader, read_delays
from seamark.groups.group_owners import read_owners
from seamark.groups.lag_model import Delay, GroupLag, count_lag
from seamark.kafka.api import BrokersPort
from seamark.kafka.groups import Committed, GroupType
from seamark.kafka.spot import Edge, Spot

_NO_GROUP = "DEAD"


def read_lag(kafka: BrokersPort, clusters: Clusters, *, now: float, with_seconds: bool = True) -> Reading[GroupLag]:
    """Records and seconds behind, the group with the most records first. See `delays` for what seconds cost."""
    listings = kafka.read_consumer_groups()
    wanted = {found.name: None for found in listings.items if found.has_offsets}
    committed = kafka.read_committed(wanted, with_metadata=False)
    spots = dict.fromkeys(spot for group in committed.items for spot in group.offsets)
    ends = kafka.read_log_offsets(spots, at=Edge.LATEST)
    known = {spot: stamp.offset for spot, stamp in ends.found.items() if stamp is not None}
    readers = {
        (spot, commit.offset): None
        for group in committed.items
        for spot, commit in group.offsets.items()
        if count_lag(commit, known.get(spot))
    }
    delays = read_delays(kafka, readers, known, now_ms=round(now * 1000)) if with_seconds and readers else {}
    owners = read_owners(clusters)
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
    # A sink that never committed is not in the list of groups, and is behind by all there is.
    new = [group for group in owners.sinks if group not in listed]
    lags += [GroupLag(group, _NO_GROUP, GroupType.UNKNOWN, owners.find(group)) for group in new]
    failures = {**listings.failures, **committed.failures, **owners.failures}
    return Reading(tuple(sorted(lags, key=_rank)), failures=failures)


def pick_delays(offsets: Mapping[Spot, Committed], delays: Mapping[Reader, Delay]) -> dict[Spot, Delay]:
    """The delays of one group."""
    return {spot: delay for spot, commit in offsets.items() if (delay := delays.get((spot, commit.offset))) is not None}


def _rank(found: GroupLag) -> tuple[int, str]:
    total = found.total
    return -(total if total is not None else -1), found.name
