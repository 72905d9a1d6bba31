"""How far readers are behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from seamark.kafka.groups import Committed, Group, GroupListing, GroupType
from seamark.kafka.spot import Bounds, Spot


@dataclass(frozen=True, slots=True)
class GroupEntry:
    """A group in the list of all. `connector` is the sink whose group it is, CLUSTER/NAME, or ""."""

    listing: GroupListing
    connector: str = ""

    @property
    def name(self) -> str:
        """The group's name."""
        return self.listing.name


@dataclass(frozen=True, slots=True)
class Delay:
    """How long the next record to read has been there, by its own timestamp. Exact to the ms, or to some percent."""

    seconds: float
    is_exact: bool = True


@dataclass(frozen=True, slots=True)
class GroupReport:
    """One group with its members and its positions. `bounds` lack the partitions that could not be asked for.

    `delays` has the partitions on which it is behind and where the brokers told times.
    """

    group: Group
    connector: str = ""
    offsets: Mapping[Spot, Committed] = field(default_factory=dict)
    bounds: Mapping[Spot, Bounds] = field(default_factory=dict)
    delays: Mapping[Spot, Delay] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The group's name."""
        return self.group.name

    @property
    def lag(self) -> Mapping[Spot, int | None]:
        """Records behind, by partition; None where nobody could tell the end."""
        ends = {spot: found.latest for spot, found in self.bounds.items()}
        return {spot: count_lag(commit, ends.get(spot)) for spot, commit in sorted(self.offsets.items())}


@dataclass(frozen=True, slots=True)
class GroupLag:
    """How far one group is behind: `lag` by partition, None where nobody could tell the end of its log.

    `state` is Kafka's word. A sink that never committed has no partitions; its state is DEAD. `delays` has the
    partitions on which it is behind and where the brokers told times.
    """

    name: str
    state: str
    type: GroupType
    connector: str = ""
    lag: Mapping[Spot, int | None] = field(default_factory=dict)
    delays: Mapping[Spot, Delay] = field(default_factory=dict)

    @property
    def total(self) -> int | None:
        """Records behind on all partitions that are known; None where none is."""
        known = [count for count in self.lag.values() if count is not None]
        return sum(known) if known else None

    @property
    def worst(self) -> tuple[Spot, int] | None:
        """The partition that is behind most, and how far."""
        known = [(count, spot) for spot, count in self.lag.items() if count is not None]
        if not known:
            return None
        count, spot = max(known)
        return spot, count

    @property
    def delay(self) -> Delay | None:
        """How long the record that waits longest has been there; None where nobody could tell."""
        if self.delays:
            return max(self.delays.values(), key=lambda found: found.seconds)
        return Delay(0.0) if self.total == 0 and not self.unknown else None

    @property
    def unknown(self) -> int:
        """How many partitions could not be asked for."""
        return sum(count is None for count in self.lag.values())


def count_lag(commit: Committed, end: int | None) -> int | None:
    """Records from a commit to the end. A commit beyond the end, as after a topic was made anew, is none behind."""
    return None if end is None else max(0, end - commit.offset)
