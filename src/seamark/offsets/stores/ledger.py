"""The ledgers of landings, as if each were a consumer group: by topic and partition, the next offset to read.

So everything that shows, saves, moves and undoes a group's offsets does the same for a landing's. They are found in the
databases and lakes that the context names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from seamark.core.readings import Reading
from seamark.core.refs import build_pipeline_owner, is_pipeline
from seamark.errors import FormatVersionError, NotFoundError, RefusedError, SeamarkError, UnreachableError
from seamark.kafka.groups import Committed, Group, GroupOffsets, GroupStatus, GroupType
from seamark.kafka.model import Spot
from seamark.tables.model import Entry
from seamark.tables.owners import find_landing, list_owners

if TYPE_CHECKING:
    from seamark.context import Context
    from seamark.context.context import DatabaseSettings
    from seamark.kafka.api import BrokersPort
    from seamark.tables.postgres.writer import LandingDatabase

# A ledger has no coordinator that would forbid anything; its store does, when it is asked.
_RIGHTS = frozenset({"READ", "DESCRIBE", "DELETE"})
_EMPTY, _DEAD = "EMPTY", "DEAD"


class LedgerPort(Protocol):
    """The entries of one owner, in a database or in a lake."""

    def read(self) -> dict[tuple[str, int], Entry]:
        """All entries, by the topic's id and the partition."""

    def place(self, entries: Iterable[Entry], *, gone: Iterable[Entry] = ()) -> None:
        """Set these and take those away, all or none."""

    def claim(self, firsts: Iterable[Entry]) -> list[Entry]:
        """Take these from whoever has them. Their epochs are others from then on."""


def route_ledgers(brokers: BrokersPort, context: Context) -> BrokersPort:
    """The brokers, with ledgers in the place of groups that are named as pipelines are."""
    if not context.databases and not context.lakes:
        return brokers
    routing = _Routing(brokers, partial(open_ledger, context), list_owners=partial(list_owners, context))
    return cast("BrokersPort", routing)


def list_ledgers(brokers: BrokersPort) -> Reading[str]:
    """The owners of all ledgers behind these brokers, and the stores that did not answer."""
    return brokers.list_ledgers() if isinstance(brokers, _Routing) else Reading()


def fence_ledger(brokers: BrokersPort, owner: str, topic: str) -> Mapping[int, int]:
    """Take the partitions of a topic from whoever lands it; offsets stay. Gives the epoch of each from then on."""
    return brokers.fence(owner, topic) if isinstance(brokers, _Routing) else {}


def read_epochs(brokers: BrokersPort, owner: str, topic: str) -> Mapping[int, int]:
    """The epoch of each partition: another one than before says that somebody has taken or moved it."""
    return brokers.read_epochs(owner, topic) if isinstance(brokers, _Routing) else {}


def open_ledger(context: Context, owner: str, *, may_begin: bool = False) -> LedgerPort:
    """The ledger that knows an owner. Who is forgotten may begin anew where there is but one database.

    Raises:
        RefusedError: several know it, and nobody can tell which of them counts.
    """
    silent: list[str] = []
    holders: list[tuple[_Store, LedgerPort]] = []
    for store in _list_stores(context):
        try:
            if (found := store.find(owner)) is not None:
                holders.append((store, found))
        except FormatVersionError:
            # This store has the owner; the offsets of another store must not be used instead.
            raise
        except SeamarkError as error:
            silent.append(f"{store.name}: {error.message}")
    if holders:
        return _choose(holders, owner)
    if silent:
        # Who does not answer may have it: to say that there is none would be a guess.
        raise UnreachableError(
            f"it can't be told where {owner} stands",
            cause="; ".join(silent),
            hint="its ledger may be there",
            context={"owner": owner},
        )
    if may_begin and len(context.databases) == 1 and not context.lakes:
        (settings,) = context.databases.values()
        database = _open_database(settings, owner)
        database.prepare()
        return database
    raise NotFoundError(
        f"no ledger knows {owner}",
        cause=f"the context's stores were asked: {', '.join([*context.databases, *context.lakes])}",
        hint="seamark land run begins it; its database or lake must be one of the context's",
        context={"owner": owner},
    )


@dataclass(frozen=True, slots=True)
class _Store:
    """A database or a lake of the context. Two names may stand for one, with the rights of two roles, say."""

    name: str
    find: Callable[[str], LedgerPort | None]
    read_place: Callable[[], str]


def _list_stores(context: Context) -> Iterator[_Store]:
    for name, database in context.databases.items():
        yield _Store(name, partial(_find_in_database, database), partial(_read_database_place, database))
    for name, lake in context.lakes.items():
        yield _Store(name, partial(find_landing, lake), partial(str, lake.url))


def _choose(holders: Sequence[tuple[_Store, LedgerPort]], owner: str) -> LedgerPort:
    """The one that has offsets of this owner. A pipeline that was led elsewhere has left its former ones behind."""
    if len(holders) > 1:
        # A lake knows a landing from its first run on, before there is an offset.
        holders = [(store, found) for store, found in holders if found.read()] or holders
    if len(holders) > 1 and len({store.read_place() for store, _ in holders}) > 1:
        raise RefusedError(
            f"{owner} has offsets in several places: {', '.join(store.name for store, _ in holders)}",
            cause="its pipeline was led from one to the other, and the former offsets are still there",
            hint="leave the former store out of the context, or delete its entries there",
            context={"owner": owner},
        )
    return holders[0][1]


def _find_in_database(settings: DatabaseSettings, owner: str) -> LedgerPort | None:
    database = _open_database(settings, owner)
    return database if database.read_if_any() else None


def _read_database_place(settings: DatabaseSettings) -> str:
    return _open_database(settings, build_pipeline_owner("")).read_place()


def _open_database(settings: DatabaseSettings, owner: str) -> LandingDatabase:
    from seamark.tables.postgres.table import LandingTable  # noqa: PLC0415
    from seamark.tables.postgres.writer import LandingDatabase  # noqa: PLC0415

    return LandingDatabase(settings.dsn.reveal(), LandingTable(settings.name, ()), owner=owner)


class _Routing:
    """Everything but what is asked of pipelines goes to the brokers."""

    def __init__(
        self,
        brokers: BrokersPort,
        open_ledger: Callable[..., LedgerPort],
        *,
        list_owners: Callable[[], Reading[str]] = Reading,
    ) -> None:
        self._brokers = brokers
        self._open_ledger = open_ledger
        self.list_ledgers = list_owners

    def __getattr__(self, name: str) -> Any:
        return getattr(self._brokers, name)

    def read_groups(self, names: Sequence[str]) -> Reading[GroupStatus]:
        ours, theirs = _split(names)
        statuses = tuple(GroupStatus(name, self._find_state(name), 0, _RIGHTS) for name in ours)
        return _join(statuses, self._brokers.read_groups(theirs) if theirs else None)

    def read_members(self, groups: Sequence[str]) -> Reading[Group]:
        ours, theirs = _split(groups)
        found = tuple(
            Group(name, self._find_state(name), GroupType.UNKNOWN, "", "", None, operations=_RIGHTS) for name in ours
        )
        return _join(found, self._brokers.read_members(theirs) if theirs else None)

    def read_committed(
        self, groups: Mapping[str, Collection[Spot] | None], *, only_stable: bool = False, with_metadata: bool = True
    ) -> Reading[GroupOffsets]:
        ours, theirs = _split(groups)
        found, failures = [], {}
        for name in ours:
            try:
                held = self._read_ledger(name)
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

    def alter_group_offsets(self, group: str, offsets: Mapping[Spot, Committed]) -> None:
        if not is_pipeline(group):
            self._brokers.alter_group_offsets(group, offsets)
            return
        ids = self._read_ids({topic for topic, _ in offsets})
        self._open_ledger(group, may_begin=True).place(
            [_build_entry(spot, ids, found.offset) for spot, found in offsets.items() if spot[0] in ids]
        )

    def delete_group_offsets(self, group: str, spots: Collection[Spot]) -> None:
        if not is_pipeline(group):
            self._brokers.delete_group_offsets(group, spots)
            return
        ids = self._read_ids({topic for topic, _ in spots})
        self._open_ledger(group).place([], gone=[_build_entry(spot, ids, 0) for spot in spots if spot[0] in ids])

    def delete_group(self, group: str) -> None:
        if not is_pipeline(group):
            self._brokers.delete_group(group)
            return
        ledger = self._open_ledger(group)
        ledger.place([], gone=ledger.read().values())

    def fence(self, owner: str, topic: str) -> dict[int, int]:
        """Claim the entries of a topic, as a run does, and land nothing."""
        ledger = self._open_ledger(owner)
        return {one.partition: one.epoch for one in ledger.claim(self._read_entries(ledger, topic))}

    def read_epochs(self, owner: str, topic: str) -> dict[int, int]:
        return {one.partition: one.epoch for one in self._read_entries(self._open_ledger(owner), topic)}

    def _read_entries(self, ledger: LedgerPort, topic: str) -> list[Entry]:
        found = self._read_ids([topic]).get(topic)
        return [entry for (topic_id, _), entry in ledger.read().items() if topic_id == found]

    def _find_state(self, owner: str) -> str:
        """In the coordinator's words. Nobody is ever in it: a run that is under way is fenced, and not asked."""
        try:
            self._open_ledger(owner)
        except NotFoundError:
            return _DEAD
        return _EMPTY

    def _read_ledger(self, owner: str) -> dict[Spot, Committed]:
        entries = self._open_ledger(owner).read().values()
        ids = self._read_ids({entry.topic for entry in entries})
        # What is left of a topic that was made anew is nobody's place any more.
        return {
            (entry.topic, entry.partition): Committed(entry.next_offset)
            for entry in entries
            if ids.get(entry.topic) == entry.topic_id
        }

    def _read_ids(self, topics: Collection[str]) -> dict[str, str]:
        reading = self._brokers.read_topics(sorted(topics))
        for error in reading.failures.values():
            # A topic that nobody could ask for is not gone: its entries are not nothing.
            if not isinstance(error, NotFoundError):
                raise error
        return {found.name: found.topic_id for found in reading.items}


def _build_entry(spot: Spot, ids: Mapping[str, str], offset: int) -> Entry:
    topic, partition = spot
    return Entry(topic, ids[topic], partition, next_offset=offset)


def _split(names: Collection[str]) -> tuple[list[str], list[str]]:
    ours = [name for name in names if is_pipeline(name)]
    return ours, [name for name in names if not is_pipeline(name)]


def _join(ours: tuple[Any, ...], theirs: Reading[Any] | None) -> Reading[Any]:
    return Reading((*ours, *(theirs.items if theirs else ())), failures=dict(theirs.failures) if theirs else {})
