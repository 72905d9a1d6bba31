"""The ledger: a table in the user's database that holds how far a topic was taken over into it.

It is changed in the transaction of the rows, by compare and set: an offset moves only from where its holder saw it. So
rows and offset are both there or both not, and whoever was left behind changes nothing. The topic's id is part of the
key: a topic that was made anew begins anew.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from seamark.core.format_version import VERSION_FIELD, StoredFormat, check_format
from seamark.errors import FencedError, UsageError
from seamark.tables.ledger_entry import Entry
from seamark.tables.postgres.any_driver import Runner

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
            raise UsageError(f"the owner of a ledger can't be {owner!r}", hint="a name of at most 200 characters")
        if not all(part.isidentifier() for part in table.split(".")):
            raise UsageError(f"a table can't be named {table!r}", hint="letters, digits and underscores, SCHEMA.TABLE")
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

    def read(self, runner: Runner) -> dict[tuple[str, int], Entry]:
        """All entries, by the topic's id and the partition.

        Raises:
            FormatVersionError: an entry has another format version, or the table has no column for it.
        """
        # Every column: another version may have other ones, and its rows must be found all the same.
        rows = runner.read_named(f"SELECT * FROM {self.table} WHERE owner = {{owner}}", owner=self.owner)  # noqa: S608
        for row in rows:
            self._check(row)
        entries = (
            Entry(
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

    def add(self, runner: Runner, entry: Entry) -> None:
        """Enter a partition, unless somebody has done so before; two at once may fail, and one of them has done it."""
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
            # Beyond every epoch of an entry that was taken away: who had claimed that one must not fit this one.
            epoch=int(time.time()),
        )

    def hold(self, runner: Runner, entry: Entry) -> Entry | None:
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

    def claim(self, runner: Runner, entry: Entry) -> Entry | None:
        """Take a partition: whoever had it before can't move it any more. Gives how far it has come; None: no entry.

        It waits for a transaction in which somebody is just moving it.

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

    def place(self, runner: Runner, entry: Entry) -> None:
        """Set a partition's offset, or enter it. Whoever has the partition can't move it any more."""
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

    def remove(self, runner: Runner, entry: Entry) -> None:
        """Take a partition's entry away."""
        changed = runner.change(
            f"DELETE FROM {self.table} WHERE {_KNOWN}",  # noqa: S608
            owner=self.owner,
            topic_id=entry.topic_id,
            partition=entry.partition,
        )
        if not changed:
            self.read(runner)

    def move(self, runner: Runner, entry: Entry, *, to: int) -> Entry:
        """Move a partition from where it was seen. To be called in the transaction of the rows.

        Raises:
            FencedError: somebody else has taken or moved it. The transaction must be rolled back.
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
            cause="another process has taken the partition, or its offset was moved",
            hint="roll the transaction back; the next poll goes on from where the ledger stands",
            context={"owner": self.owner, "topic": entry.topic, "partition": str(entry.partition)},
        )

    def _check(self, row: Mapping[str, Any]) -> None:
        place = f"{row.get('topic')}-{row.get('partition_number')} of {self.owner}"
        check_format(FORMAT, row, where=f"the entry {place} in {self.table}")
