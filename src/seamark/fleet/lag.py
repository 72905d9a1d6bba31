"""How far every group and every sink is behind: a few calls for all of them, none for each partition."""

from __future__ import annotations

from seamark.fleet.clusters import Clusters
from seamark.fleet.group_owners import read_owners
from seamark.fleet.ports import BrokersPort
from seamark.model.group import GroupType
from seamark.model.lag import GroupLag, count_lag
from seamark.model.reading import Reading
from seamark.model.spot import Edge

_NO_GROUP = "DEAD"


def read_lag(kafka: BrokersPort, clusters: Clusters) -> Reading[GroupLag]:
    """Records behind, the worst group first. Seconds behind are not told: that needs a record of each partition."""
    listings = kafka.read_consumer_groups()
    committed = kafka.read_committed({found.name: None for found in listings.items if found.has_offsets})
    spots = dict.fromkeys(spot for group in committed.items for spot in group.offsets)
    ends = kafka.read_log_offsets(spots, at=Edge.LATEST)
    known = {spot: stamp.offset for spot, stamp in ends.found.items() if stamp is not None}
    owners = read_owners(clusters)
    listed = {found.name: found for found in listings.items}
    lags = [
        GroupLag(
            found.group,
            state=listed[found.group].state,
            type=listed[found.group].type,
            connector=owners.find(found.group),
            lag={spot: count_lag(commit, known.get(spot)) for spot, commit in sorted(found.offsets.items())},
        )
        for found in committed.items
    ]
    # A sink that never committed is not in the list of groups, and is behind by all there is.
    new = [group for group in owners.sinks if group not in listed]
    lags += [GroupLag(group, _NO_GROUP, GroupType.UNKNOWN, owners.find(group)) for group in new]
    failures = {**listings.failures, **committed.failures, **owners.failures}
    return Reading(tuple(sorted(lags, key=_rank)), failures=failures)


def _rank(found: GroupLag) -> tuple[int, str]:
    total = found.total
    return -(total if total is not None else -1), found.name
