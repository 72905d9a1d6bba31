"""The ledger: a table in the user's database that holds how far a topic was taken over into it.

It is changed in the transaction of the rows, by compare and set: an offset moves only from the value that its holder
read. So rows and offset are either both stored or both not, and a fenced holder changes nothing. The topic ID is part
of the key: a recreated topic has no entries.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from seamark.core.strict_json import VERSION_FIELD, StoredFormat, check_format
from seamark.errors import FencedError, UsageError
from seamark.tables.model import LedgerEntry

_HOLE = re.compile(r"\{(\w+)\}")
_STYLES = {"format": "%s", "pyformat": "%({name})s", "qmark": "?", "named": ":{name}", "numeric": ":{place}"}
_BY_NAME = frozenset({"pyformat", "named"})


class Runner:
    """One connection. Nothing is committed here: the transaction is the caller's."""

    def __init__(self, connection: Any) -> None:
        # SQLAlchemy's connection hands a statement to the driver as it is.
        self._execute: Callable[..., Any] | None = getattr(connection, "exec_driver_sql", None)
        self._connection = connection
        self._style = _find_style(connection)

    @property
    def is_postgres(self) -> bool:
        """Whether it is PostgreSQL, by a driver that is known."""
        dialect = getattr(self._connection, "dialect", None)
        name = getattr(dialect, "name", None) or _root(self._connection)
        return name in {"postgresql", "psycopg", "psycopg2", "pg8000"}

    @property
    def is_alone(self) -> bool:
        """Whether each statement is its own transaction (autocommit), as far as the connection shows that."""
        read_options = getattr(self._connection, "get_execution_options", None)
        if read_options is not None and read_options().get("isolation_level") == "AUTOCOMMIT":
            return True
        connection = _unwrap(self._connection)
        root = _root(connection)
        if root in {"psycopg", "psycopg2"}:
            # 0 is idle.
            return bool(connection.autocommit) and connection.info.transaction_status == 0
        if root == "sqlite3":
            # The attribute is there from Python 3.12 on, and is a number where it says nothing.
            is_automatic = connection.isolation_level is None or getattr(connection, "autocommit", None) is True
            return is_automatic and not connection.in_transaction
        return False

    def expect_transaction(self) -> None:
        """Refuse a connection in autocommit mode."""
        if self.is_alone:
            raise UsageError(
                "offsets can't be saved outside of a transaction",
                cause="rows and offsets must be committed together",
                hint="write the rows first, in the same transaction: with connection.transaction(): …",
            )

    def change(self, text: str, **values: object) -> int:
        """Run a statement whose values stand as `{name}` in it. Gives how many rows it has changed."""
        return self._run(text, values, lambda cursor: int(cursor.rowcount))  # type: ignore[no-any-return]

    def read(self, text: str, **values: object) -> Sequence[Sequence[Any]]:
        """All rows of a query, whatever the connection makes of them."""
        return self._run(text, values, lambda cursor: [_list_values(row) for row in cursor.fetchall()])  # type: ignore[no-any-return]

    def read_named(self, text: str, **values: object) -> list[dict[str, Any]]:
        """All rows of a query by column name, in lower case."""
        return self._run(text, values, _list_named)  # type: ignore[no-any-return]

    def _run(self, text: str, values: Mapping[str, object], take: Callable[[Any], Any]) -> Any:
        names = _HOLE.findall(text)
        places = iter(range(1, len(names) + 1))
        spelled = _HOLE.sub(lambda hole: _STYLES[self._style].format(name=hole[1], place=next(places)), text)
        given = {name: values[name] for name in names} if self._style in _BY_NAME else tuple(values[n] for n in names)
        if self._execute is not None:
            return take(self._execute(spelled, given))
        cursor = self._connection.cursor()
        try:
            cursor.execute(spelled, given)
            return take(cursor)
        finally:
            cursor.close()


def _find_style(connection: Any) -> str:
    dialect = getattr(connection, "dialect", None)
    style = getattr(dialect, "paramstyle", None) or getattr(sys.modules.get(_root(connection)), "paramstyle", None)
    # Under these names SQLAlchemy has what some asynchronous drivers want.
    style = {"numeric_dollar": "numeric"}.get(str(style), style)
    if style not in _STYLES:
        raise UsageError(
            f"unsupported connection of module {type(connection).__module__}",
            cause="the module has no paramstyle of the Python DB-API",
            hint="pass a connection of psycopg, SQLAlchemy (Connection, not Engine) or another DB-API driver",
        )
    return str(style)


def _unwrap(connection: Any) -> Any:
    """The driver's connection, beneath SQLAlchemy's and its pool's."""
    if getattr(connection, "exec_driver_sql", None) is None:
        return connection
    return getattr(getattr(connection, "connection", None), "dbapi_connection", None)


def _list_values(row: Any) -> Sequence[Any]:
    """The values of a row in the order of the query's columns."""
    if isinstance(row, Mapping):
        return tuple(row.values())
    if isinstance(row, str) or not isinstance(row, Iterable):
        raise UsageError(
            f"unsupported row type {type(row).__name__}",
            cause="the connection has a row factory of its own",
            hint="open the connection of the consumer without a row factory: rows must be tuples or dicts",
        )
    return tuple(row)


def _list_named(cursor: Any) -> list[dict[str, Any]]:
    # SQLAlchemy wraps the driver's cursor.
    description = getattr(cursor, "cursor", cursor).description
    names = [str(column[0]).lower() for column in description]
    return [dict(zip(names, _list_values(row), strict=True)) for row in cursor.fetchall()]


def _root(connection: Any) -> str:
    """Return the package of a connection's driver; a subclass of the user inherits from a class of the driver."""
    roots = [kind.__module__.partition(".")[0] for kind in type(connection).__mro__]
    return next((root for root in roots if hasattr(sys.modules.get(root), "paramstyle")), roots[0])


FORMAT = StoredFormat("ledger entry", 1)

TABLE = "seamark_ledger"
_NAME_LENGTH = 200

_COLUMNS = f"topic, partition_number, next_offset, epoch, moves, {VERSION_FIELD}"
_KEY = "owner = {owner} AND topic_id = {topic_id} AND partition_number = {partition}"
# An entry of another format version is neither locked nor changed.
_KNOWN = f"{_KEY} AND {VERSION_FIELD} = {FORMAT.version}"


class Ledger:
    """The entries of one owner, a landing or a consumer. Every call is part of the caller's transaction."""

    def __init__(self, owner: str, *, table: str = TABLE) -> None:
        if not owner or len(owner) > _NAME_LENGTH:
            raise UsageError(f"invalid owner {owner!r} of a ledger", hint="use a name of at most 200 characters")
        if not all(part.isidentifier() for part in table.split(".")):
            raise UsageError(
                f"invalid table name {table!r}", hint="use letters, digits and underscores: TABLE or SCHEMA.TABLE"
            )
        self.owner = owner
        self.table = table

    def create(self, runner: Runner) -> None:
        """Make the table where it is missing."""
        runner.change(
            f"CREATE TABLE IF NOT EXISTS {self.table} ("
            f"owner varchar({_NAME_LENGTH}) NOT NULL, topic_id varchar(64) NOT NULL, "
            "partition_number integer NOT NULL, topic varchar(255) NOT NULL, next_offset bigint NOT NULL, "
            "epoch bigint NOT NULL, moves bigint NOT NULL, changed_at timestamp DEFAULT CURRENT_TIMESTAMP, "
            f"{VERSION_FIELD} integer NOT NULL, "
            "PRIMARY KEY (owner, topic_id, partition_number))"
        )

    def read(self, runner: Runner) -> dict[tuple[str, int], LedgerEntry]:
        """All entries, by the topic's id and the partition.

        Raises:
            FormatVersionError: an entry has another format version, or the table has no column for it.
        """
        # Every column: another version may have other ones, and its rows must be found all the same.
        rows = runner.read_named(f"SELECT * FROM {self.table} WHERE owner = {{owner}}", owner=self.owner)  # noqa: S608
        for row in rows:
            self._check(row)
        entries = (
            LedgerEntry(
                row["topic"],
                row["topic_id"],
                row["partition_number"],
                next_offset=row["next_offset"],
                epoch=row["epoch"],
                moves=row["moves"],
            )
            for row in rows
        )
        return {entry.key: entry for entry in entries}

    def add(self, runner: Runner, entry: LedgerEntry) -> None:
        """Enter a partition, unless it has an entry; of two concurrent inserts one may fail, and the other succeeds."""
        runner.change(
            f"INSERT INTO {self.table} (owner, topic_id, {_COLUMNS}) "  # noqa: S608
            # What stands here and in the condition must be of one type for PostgreSQL.
            f"SELECT CAST({{owner}} AS varchar({_NAME_LENGTH})), CAST({{topic_id}} AS varchar(64)), "
            f"{{topic}}, CAST({{partition}} AS integer), {{next_offset}}, {{epoch}}, 0, {FORMAT.version} "
            f"WHERE NOT EXISTS (SELECT 1 FROM {self.table} WHERE {_KEY})",
            owner=self.owner,
            topic_id=entry.topic_id,
            topic=entry.topic,
            partition=entry.partition,
            next_offset=entry.next_offset,
            # Greater than every epoch of a removed entry: the holder of that one must not be able to move this one. In
            # microseconds: an entry may be removed and added again within a second, and each claim adds 1.
            epoch=time.time_ns() // 1000,
        )

    def hold(self, runner: Runner, entry: LedgerEntry) -> LedgerEntry | None:
        """The entry of a partition, locked until the transaction ends. For databases that know FOR UPDATE."""
        rows = runner.read(
            f"SELECT next_offset, epoch, moves FROM {self.table} WHERE {_KNOWN} FOR UPDATE",  # noqa: S608
            owner=self.owner,
            topic_id=entry.topic_id,
            partition=entry.partition,
        )
        for next_offset, epoch, moves in rows:
            return replace(entry, next_offset=next_offset, epoch=epoch, moves=moves)
        self.read(runner)
        return None

    def claim(self, runner: Runner, entry: LedgerEntry) -> LedgerEntry | None:
        """Claim a partition, which fences its previous holder. Returns how far it has come; None: no entry.

        It waits for a transaction that is moving the entry.

        Raises:
            FormatVersionError: an entry of the owner has another format version. The transaction must be rolled back.
        """
        changed = runner.change(
            f"UPDATE {self.table} SET epoch = epoch + 1, changed_at = CURRENT_TIMESTAMP WHERE {_KNOWN}",  # noqa: S608
            owner=self.owner,
            topic_id=entry.topic_id,
            partition=entry.partition,
        )
        found = self.read(runner)
        return found[entry.key] if changed else None

    def place(self, runner: Runner, entry: LedgerEntry) -> None:
        """Set a partition's offset, or enter it. This fences the holder of the partition."""
        changed = runner.change(
            f"UPDATE {self.table} SET next_offset = {{to}}, epoch = epoch + 1, moves = moves + 1, "  # noqa: S608
            f"changed_at = CURRENT_TIMESTAMP WHERE {_KNOWN}",
            owner=self.owner,
            topic_id=entry.topic_id,
            partition=entry.partition,
            to=entry.next_offset,
        )
        if not changed:
            self.read(runner)
            self.add(runner, entry)

    def remove(self, runner: Runner, entry: LedgerEntry) -> None:
        """Take a partition's entry away."""
        changed = runner.change(
            f"DELETE FROM {self.table} WHERE {_KNOWN}",  # noqa: S608
            owner=self.owner,
            topic_id=entry.topic_id,
            partition=entry.partition,
        )
        if not changed:
            self.read(runner)

    def move(self, runner: Runner, entry: LedgerEntry, *, to: int) -> LedgerEntry:
        """Move a partition from where it was seen. To be called in the transaction of the rows.

        Raises:
            FencedError: another holder has claimed or moved it. The transaction must be rolled back.
        """
        changed = runner.change(
            f"UPDATE {self.table} SET next_offset = {{to}}, moves = moves + 1, "  # noqa: S608
            f"changed_at = CURRENT_TIMESTAMP WHERE {_KNOWN} "
            "AND next_offset = {seen} AND epoch = {epoch} AND moves = {moves}",
            owner=self.owner,
            topic_id=entry.topic_id,
            partition=entry.partition,
            seen=entry.next_offset,
            epoch=entry.epoch,
            moves=entry.moves,
            to=to,
        )
        if changed == 1:
            return replace(entry, next_offset=to, moves=entry.moves + 1)
        self.read(runner)
        raise FencedError(
            f"{entry} of {self.owner} is no longer at {entry.next_offset}",
            cause="another process has claimed the partition, or its offset was moved",
            hint="roll back the transaction; the next poll continues from the ledger offset",
            context={"owner": self.owner, "topic": entry.topic, "partition": str(entry.partition)},
        )

    def _check(self, row: Mapping[str, Any]) -> None:
        place = f"{row.get('topic')}-{row.get('partition_number')} of {self.owner}"
        check_format(FORMAT, row, where=f"the entry {place} in {self.table}")
