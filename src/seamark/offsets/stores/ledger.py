"""Access the ledgers of pipelines like consumer groups: by topic and partition, the next offset to read.

Everything that shows, exports, moves and undoes a group's offsets therefore works for a pipeline as well. The ledgers
are found in the stores of the context, through `seamark.tables.registry`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from seamark.core.readings import Reading
from seamark.core.refs import is_pipeline
from seamark.errors import FormatVersionError, NotFoundError, RefusedError, SeamarkError, UnreachableError
from seamark.kafka.api import BrokersPort
from seamark.kafka.groups import Committed, Group, GroupListing, GroupOffsets, GroupStatus, GroupType
from seamark.kafka.model import TopicPartition
from seamark.tables.model import LedgerEntry
from seamark.tables.registry import LedgerPort, NamedStore, list_owners, list_stores

if TYPE_CHECKING:
    from seamark.context import Context
    from seamark.kafka.model import (
        KafkaCluster,
        LogOffsets,
        OffsetAndTimestamp,
        OffsetSpec,
        OpenTransaction,
        PartitionReading,
        TopicSize,
        TopicStatus,
    )

# A ledger has no coordinator that could deny access; its store does so when it is used.
_RIGHTS = frozenset({"READ", "DESCRIBE", "DELETE"})
_EMPTY, _DEAD = "EMPTY", "DEAD"


def route_ledgers(brokers: BrokersPort, context: Context) -> BrokersPort:
    """Return the brokers, with ledgers in place of the groups that have the name of a pipeline."""
    if not list_stores(context):
        return brokers
    ledgers = LedgerOffsets(
        partial(open_ledger, context), read_topics=brokers.read_topics, list_owners=partial(list_owners, context)
    )
    return LedgerBrokers(brokers, ledgers)


def list_ledgers(brokers: BrokersPort) -> Reading[str]:
    """Return the owners of all ledgers of these brokers, and the stores that did not respond."""
    return brokers.ledgers.list_owners() if isinstance(brokers, LedgerBrokers) else Reading()


def fence_ledger(brokers: BrokersPort, owner: str, topic: str) -> Mapping[int, int]:
    """Take the partitions of a topic from a running pipeline; offsets stay. Return the new epoch of each."""
    return brokers.ledgers.fence(owner, topic) if isinstance(brokers, LedgerBrokers) else {}


def read_epochs(brokers: BrokersPort, owner: str, topic: str) -> Mapping[int, int]:
    """Return the epoch of each partition: a new one means that another process has claimed or moved it."""
    return brokers.ledgers.read_epochs(owner, topic) if isinstance(brokers, LedgerBrokers) else {}


def open_ledger(context: Context, owner: str, *, may_begin: bool = False) -> LedgerPort:
    """Open the ledger of an owner. An unknown owner may start a new ledger if there is only one store.

    Raises:
        RefusedError: Several stores have the owner, so the effective one can't be determined.
    """
    silent: list[str] = []
    stores = list_stores(context)
    holders: list[tuple[NamedStore, LedgerPort]] = []
    for named in stores:
        try:
            if (found := named.store.find(owner)) is not None:
                holders.append((named, found))
        except FormatVersionError:
            # This store has the owner; the offsets of another store must not be used instead.
            raise
        except SeamarkError as error:
            silent.append(f"{named.name}: {error.message}")
    if holders:
        return _choose(holders, owner)
    if silent:
        # A store that does not respond may have the ledger: reporting "not found" would be a guess.
        raise UnreachableError(
            f"can't read the offsets of {owner}",
            cause="; ".join(silent),
            hint="run the command again when these stores respond, because one of them may contain its ledger",
            context={"owner": owner},
        )
    if may_begin and len(stores) == 1 and (begun := stores[0].store.begin(owner)) is not None:
        return begun
    raise NotFoundError(
        f"no ledger has offsets of {owner}",
        cause=f"stores of the context: {', '.join(named.name for named in stores)}",
        hint="start it with seamark pipelines run, or add its database or lake to the context",
        context={"owner": owner},
    )


def _choose(holders: Sequence[tuple[NamedStore, LedgerPort]], owner: str) -> LedgerPort:
    """Return the ledger with offsets of this owner. A pipeline with a new target has its old ones elsewhere."""
    if len(holders) > 1:
        # A Delta table has the pipeline from its first run on, before there is an offset.
        holders = [(named, found) for named, found in holders if found.read()] or holders
    if len(holders) > 1 and len({(named.place, named.store.read_identity()) for named, _ in holders}) > 1:
        raise RefusedError(
            f"{owner} has offsets in several stores: {', '.join(named.name for named, _ in holders)}",
            cause="its pipeline was moved to another store, and the previous offsets still exist",
            hint="remove the previous store from the context, or delete its ledger entries there",
            context={"owner": owner},
        )
    return holders[0][1]


class LedgerOffsets:
    """The ledgers of pipelines as an offset store, by owner, topic and partition.

    `open_ledger` finds the ledger of an owner each time it is needed; `read_topics` asks the brokers for the IDs of
    topics, because entries of a topic that was recreated since belong to no current partition.
    """

    def __init__(
        self,
        open_ledger: Callable[..., LedgerPort],
        *,
        read_topics: Callable[[Sequence[str]], Reading[TopicStatus]],
        list_owners: Callable[[], Reading[str]] = Reading,
    ) -> None:
        self._open_ledger = open_ledger
        self._read_topics = read_topics
        self.list_owners = list_owners

    def find_state(self, owner: str) -> str:
        """Return the state in the coordinator's terms. There are never members: a run is fenced without being asked.

        A Delta table has its pipeline even without offsets. Like a group without offsets, it is then dead.
        """
        try:
            entries = self._open_ledger(owner).read()
        except NotFoundError:
            return _DEAD
        return _EMPTY if entries else _DEAD

    def read(self, owner: str) -> dict[TopicPartition, Committed]:
        """Read the offsets of an owner.

        Raises:
            NotFoundError: No store has the owner.
        """
        entries = self._open_ledger(owner).read().values()
        ids = self._read_ids({entry.topic for entry in entries})
        # Entries of a topic that was recreated are not offsets of a current partition.
        return {
            (entry.topic, entry.partition): Committed(entry.next_offset)
            for entry in entries
            if ids.get(entry.topic) == entry.topic_id
        }

    def place(self, owner: str, offsets: Mapping[TopicPartition, Committed]) -> None:
        """Set these offsets, all or none. A run that holds one of them is fenced."""
        ids = self._read_ids({topic for topic, _ in offsets})
        self._open_ledger(owner, may_begin=True).place(
            [_build_entry(spot, ids, found.offset) for spot, found in offsets.items() if spot[0] in ids]
        )

    def remove(self, owner: str, spots: Collection[TopicPartition]) -> None:
        """Remove the offsets of these partitions, all or none."""
        ids = self._read_ids({topic for topic, _ in spots})
        self._open_ledger(owner).place([], gone=[_build_entry(spot, ids, 0) for spot in spots if spot[0] in ids])

    def forget(self, owner: str) -> None:
        """Remove every entry of an owner, including those of deleted topics."""
        ledger = self._open_ledger(owner)
        ledger.place([], gone=ledger.read().values())

    def fence(self, owner: str, topic: str) -> dict[int, int]:
        """Claim the entries of a topic, as a run does, but process no records. Return each partition's epoch."""
        ledger = self._open_ledger(owner)
        return {one.partition: one.epoch for one in ledger.claim(self._read_entries(ledger, topic))}

    def read_epochs(self, owner: str, topic: str) -> dict[int, int]:
        """Return the epoch of each partition of a topic, without fencing a run."""
        return {one.partition: one.epoch for one in self._read_entries(self._open_ledger(owner), topic)}

    def _read_entries(self, ledger: LedgerPort, topic: str) -> list[LedgerEntry]:
        found = self._read_ids([topic]).get(topic)
        return [entry for (topic_id, _), entry in ledger.read().items() if topic_id == found]

    def _read_ids(self, topics: Collection[str]) -> dict[str, str]:
        reading = self._read_topics(sorted(topics))
        for error in reading.failures.values():
            # A topic that could not be read is not deleted: its entries are kept.
            if not isinstance(error, NotFoundError):
                raise error
        return {found.name: found.topic_id for found in reading.items}


class LedgerBrokers:
    """The brokers, with a pipeline's ledger in place of a consumer group. All other calls go to the brokers."""

    def __init__(self, brokers: BrokersPort, ledgers: LedgerOffsets) -> None:
        self._brokers = brokers
        self.ledgers = ledgers

    def read_groups(self, names: Sequence[str]) -> Reading[GroupStatus]:
        """Return the states of groups and pipelines."""
        ours, theirs = _split(names)
        statuses = tuple(GroupStatus(name, self.ledgers.find_state(name), 0, _RIGHTS) for name in ours)
        return _join(statuses, self._brokers.read_groups(theirs) if theirs else None)

    def read_members(self, groups: Sequence[str]) -> Reading[Group]:
        """Return groups with their members; a pipeline has none."""
        ours, theirs = _split(groups)
        found = tuple(
            Group(name, self.ledgers.find_state(name), GroupType.UNKNOWN, "", "", None, operations=_RIGHTS)
            for name in ours
        )
        return _join(found, self._brokers.read_members(theirs) if theirs else None)

    def read_committed(
        self,
        groups: Mapping[str, Collection[TopicPartition] | None],
        *,
        only_stable: bool = False,
        with_metadata: bool = True,
    ) -> Reading[GroupOffsets]:
        """Return the committed offsets of groups, and those in the ledgers of pipelines."""
        ours, theirs = _split(groups)
        found, failures = [], {}
        for name in ours:
            try:
                held = self.ledgers.read(name)
            except SeamarkError as error:
                failures[name] = error
                continue
            wanted = groups[name]
            found.append(
                GroupOffsets(name, {spot: at for spot, at in held.items() if wanted is None or spot in wanted})
            )
        asked = {name: groups[name] for name in theirs}
        answer = None
        if asked:
            answer = self._brokers.read_committed(asked, only_stable=only_stable, with_metadata=with_metadata)
        joined = _join(tuple(found), answer)
        return Reading(joined.items, failures={**joined.failures, **failures})

    def alter_group_offsets(self, group: str, offsets: Mapping[TopicPartition, Committed]) -> None:
        """Set offsets in the group, or in the ledger."""
        if is_pipeline(group):
            self.ledgers.place(group, offsets)
        else:
            self._brokers.alter_group_offsets(group, offsets)

    def delete_group_offsets(self, group: str, spots: Collection[TopicPartition]) -> None:
        """Remove offsets from the group, or from the ledger."""
        if is_pipeline(group):
            self.ledgers.remove(group, spots)
        else:
            self._brokers.delete_group_offsets(group, spots)

    def delete_group(self, group: str) -> None:
        """Delete the group, or all entries of the ledger."""
        if is_pipeline(group):
            self.ledgers.forget(group)
        else:
            self._brokers.delete_group(group)

    def read_cluster(self) -> KafkaCluster:
        """Forward to the brokers."""
        return self._brokers.read_cluster()

    def read_topics(self, names: Sequence[str]) -> Reading[TopicStatus]:
        """Forward to the brokers."""
        return self._brokers.read_topics(names)

    def read_all_topics(self) -> Reading[TopicStatus]:
        """Forward to the brokers."""
        return self._brokers.read_all_topics()

    def read_bounds(self, spots: Iterable[TopicPartition]) -> PartitionReading[LogOffsets]:
        """Forward to the brokers."""
        return self._brokers.read_bounds(spots)

    def read_consumer_groups(self) -> Reading[GroupListing]:
        """Forward to the brokers."""
        return self._brokers.read_consumer_groups()

    def read_all_groups(self) -> Reading[GroupListing]:
        """Forward to the brokers."""
        return self._brokers.read_all_groups()

    def read_sizes(self, topics: Mapping[str, Sequence[int]]) -> Reading[TopicSize]:
        """Forward to the brokers."""
        return self._brokers.read_sizes(topics)

    def read_log_offsets(
        self, spots: Iterable[TopicPartition], *, at: OffsetSpec | int
    ) -> PartitionReading[OffsetAndTimestamp | None]:
        """Forward to the brokers."""
        return self._brokers.read_log_offsets(spots, at=at)

    def read_offsets_at(self, times: Mapping[TopicPartition, int]) -> PartitionReading[OffsetAndTimestamp | None]:
        """Forward to the brokers."""
        return self._brokers.read_offsets_at(times)

    def read_moving(self) -> Mapping[TopicPartition, tuple[int, ...]]:
        """Forward to the brokers."""
        return self._brokers.read_moving()

    def read_open_transactions(self, spots: Sequence[TopicPartition]) -> tuple[OpenTransaction, ...]:
        """Forward to the brokers."""
        return self._brokers.read_open_transactions(spots)

    def read_broker_setting(self, key: str) -> str:
        """Forward to the brokers."""
        return self._brokers.read_broker_setting(key)

    def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Forward to the brokers."""
        self._brokers.create_topic(name, partitions=partitions, replication_factor=replication_factor, configs=configs)

    def delete_topic(self, name: str) -> None:
        """Forward to the brokers."""
        self._brokers.delete_topic(name)

    def grow_topic(self, name: str, *, partitions: int) -> None:
        """Forward to the brokers."""
        self._brokers.grow_topic(name, partitions=partitions)

    def alter_topic_config(
        self, name: str, *, values: Mapping[str, str] | None = None, remove: Collection[str] = ()
    ) -> None:
        """Forward to the brokers."""
        self._brokers.alter_topic_config(name, values=values, remove=remove)

    def close(self) -> None:
        """Close the brokers."""
        self._brokers.close()


def _build_entry(spot: TopicPartition, ids: Mapping[str, str], offset: int) -> LedgerEntry:
    topic, partition = spot
    return LedgerEntry(topic, ids[topic], partition, next_offset=offset)


def _split(names: Collection[str]) -> tuple[list[str], list[str]]:
    ours = [name for name in names if is_pipeline(name)]
    return ours, [name for name in names if not is_pipeline(name)]


def _join(ours: tuple[Any, ...], theirs: Reading[Any] | None) -> Reading[Any]:
    return Reading((*ours, *(theirs.items if theirs else ())), failures=dict(theirs.failures) if theirs else {})
