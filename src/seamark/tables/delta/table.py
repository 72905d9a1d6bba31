"""A table of Delta, and the offsets of one landing in its commits.

The landing's application id is its owner. Its transaction's version is the number of the commit that holds its offsets,
so they are found with one read. A commit is tried for one number only, and the store writes no number twice: the second
writer reads the table, and finds that its work is done, that it may try the next number, or that it is fenced.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar
from uuid import uuid4

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from seamark.core.refs import find_mirror, parse_owner
from seamark.errors import (
    FencedError,
    NotFoundError,
    RefusedError,
    SeamarkError,
    StaleFilesError,
    StalePlanError,
    UnknownOutcomeError,
    UnreachableError,
)
from seamark.tables.delta.commits import (
    CommitOffsets,
    Position,
    RecordTimes,
    build_fenced,
    build_forgotten,
    find_renewal_ms,
    read_vector,
)
from seamark.tables.delta.files import DataFile
from seamark.tables.delta.location import TableLocation
from seamark.tables.delta.stored_files import (
    Rewrite,
    StoredFiles,
    TableContents,
    build_add,
    build_layout,
    build_remove,
    list_adds,
    list_stored,
)
from seamark.tables.model import LedgerEntry, TableLayout

GENERATION = "seamark-generation"
"""The application ID whose transaction has the generation of a table's files: a rebuild makes a new one."""
_DELETION = "seamark-deletion"
# Its transaction has the time until which a vacuum may delete files, in ms; 0 after it has ended.
_TRIES = 40
Committed = TypeVar("Committed")
_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0


class LakeTable:
    """One table, as one landing sees it. Nothing is kept between calls but the table's state."""

    def __init__(
        self, place: TableLocation, *, owner: str, log: TableLocation | None = None, table_id: str = ""
    ) -> None:
        """Open nothing yet.

        Args:
            place: Where the data files are.
            owner: Whose offsets its commits have.
            log: Where the log is; by default with the files. The log of a rebuild is elsewhere until it is swapped in.
            table_id: The ID that the table must have, if that matters.
        """
        self.at = place
        self.log = log or place
        self.owner = owner
        self._table_id = table_id
        self._table: DeltaTable | None = None

    def read_layout(self) -> TableLayout | None:
        """What the table has; None where there is none."""
        with self.telling():
            table = self._find()
            return None if table is None else build_layout(table)

    def create(
        self, schema: pa.Schema, *, partition_by: Sequence[str], properties: Mapping[str, str] | None = None
    ) -> None:
        """Make the table. One that another process has made in the same moment will do."""
        with self.telling():
            if self._find() is not None:
                return
            try:
                DeltaTable.create(
                    self.log.table_url,
                    schema=schema,
                    mode="ignore",
                    partition_by=list(partition_by),
                    configuration=dict(properties or {}),
                    # A property of ours is none that Delta knows.
                    raise_if_key_not_exists=False,
                    storage_options=self.log.build_options(),
                    commit_properties=CommitProperties(max_commit_retries=0),
                )
            except DeltaError:
                if self._find() is None:
                    raise

    def add_columns(self, schema: pa.Schema) -> None:
        """Add the columns of a schema that the table has not."""

        def add(table: DeltaTable) -> None:
            known = {one.name for one in table.schema().fields}
            missing = [one for one in schema if one.name not in known]
            if missing:
                table.alter.add_columns(list(Schema.from_arrow(pa.schema(missing)).fields))

        self._alter(add)

    def read_position(self, *, may_be_lost: bool = False) -> Position:
        """Where the landing stands.

        Raises:
            RefusedError: the commit that says it was cleaned away, and it may not be lost.
        """
        with self.telling():
            table = self._find()
            if table is None:
                return Position(None, CommitOffsets(self.owner, ""))
            return self._read_position(table, may_be_lost=may_be_lost)

    def commit(
        self,
        files: Iterable[DataFile],
        entries: Iterable[LedgerEntry],
        *,
        seen: Position,
        rewrite: Rewrite | None = None,
        times: RecordTimes | None = None,
    ) -> Position:
        """Add these files and move the offsets, both or none, from where the landing was seen.

        Args:
            files: What is added.
            entries: The offsets that move.
            seen: Where the landing was seen.
            rewrite: What is removed, and at which version of the table it was read.
            times: The times of the records so far; None: unchanged.

        Raises:
            FencedError: the landing is elsewhere: another run of it was faster, or its offsets were moved.
            StalePlanError: another commit has changed the files that were read.
            UnreachableError: the store has not answered. `read_position` shows whether it is done.
        """
        moved = {**seen.entries, **{entry.key: entry for entry in entries}}
        run = uuid4().hex
        vector = CommitOffsets(
            self.owner, run, tuple(moved.values()), times or seen.vector.times, rebuild=self._table_id
        )
        return self._commit(list(files), vector, seen=seen, rewrite=rewrite)

    def replace_files(self, files: Iterable[DataFile], rewrite: Rewrite) -> int:
        """Put files in the place of others with the same rows. Offsets stay as they are, and runs continue.

        Returns:
            The version of the table.

        Raises:
            StaleFilesError: Another commit has replaced or deleted one of them meanwhile.
            UnreachableError: The store has not answered. No row is lost or duplicated, whether it is done or not.
        """
        changes: list[Any] = [build_add(file, is_change=False) for file in files]
        changes += [build_remove(file, is_change=False) for file in rewrite.removed]

        def replace() -> int:
            with self.telling():
                table = self.refresh()
                rewrite.check(table)
                number: int = table.version() + 1
                self._write_commit(table, changes, CommitProperties(max_commit_retries=0))
                return number

        return self._persist(replace, what=f"{self.owner} could not replace files of {self.at.url}")

    def begin_deletion(self, choose: Callable[[DeltaTable], list[str]], *, until_ms: int) -> list[str]:
        """Choose files to delete by one version of the table, and say so in the commit after that version.

        A commit that would put deleted files back (`check_undeleted`) comes before it, so that they are chosen no more,
        or after it, and is refused.

        Returns:
            The files. There is no commit if there are none.

        Raises:
            RefusedError: Another vacuum is deleting files.
        """

        def begin() -> list[str]:
            with self.telling():
                table = self.refresh()
                if table.transaction_version(_DELETION) == until_ms:
                    # The answer to an earlier try was lost. Nothing was chosen for another version.
                    return choose(table)
                self.check_undeleted()
                if found := choose(table):
                    self._write_commit(table, [], _build_deletion(until_ms))
                return found

        return self._persist(begin, what=f"could not begin to delete files of {self.at.url}")

    def end_deletion(self, *, until_ms: int) -> None:
        """Say that the files of `begin_deletion` are deleted. A task that failed may still delete some."""

        def end() -> None:
            with self.telling():
                table = self.refresh()
                if table.transaction_version(_DELETION) == until_ms:
                    self._write_commit(table, [], _build_deletion(0))

        self._persist(end, what=f"could not end the deletion of files of {self.at.url}")

    def check_undeleted(self) -> None:
        """Check that no vacuum is deleting files, by the version that was read last.

        Raises:
            RefusedError: One is, or was killed a few minutes ago.
        """
        until = (self._table.transaction_version(_DELETION) or 0) if self._table is not None else 0
        if (left := until - _read_clock_ms()) > 0:
            raise RefusedError(
                f"a vacuum is deleting old files of {self.at.url}; no changes were made",
                cause="two at a time, or an undo beside one, could delete files that a version needs",
                hint=f"try again when it has ended, in {-(-left // 60_000)} min at the latest",
            )

    def list_files(self) -> StoredFiles:
        """Read which files the table has now.

        Raises:
            NotFoundError: there is no table.
            UnreachableError: the store has not answered.
        """
        with self.telling():
            return list_stored(self.refresh())

    def read(self) -> dict[tuple[str, int], LedgerEntry]:
        """Read the offsets, by topic ID and partition; none where they are lost, so that they may be set."""
        return self.read_position(may_be_lost=True).entries

    def place(self, entries: Iterable[LedgerEntry], *, gone: Iterable[LedgerEntry] = ()) -> None:
        """Set these offsets and take those away, without any row. A run that is under way is fenced by it."""
        wanted, unwanted = {entry.key: entry for entry in entries}, {entry.key for entry in gone}

        def place() -> Position:
            seen = self.read_position(may_be_lost=True)
            left = {key: entry for key, entry in {**seen.entries, **wanted}.items() if key not in unwanted}
            vector = CommitOffsets(self.owner, uuid4().hex, tuple(left.values()), seen.vector.times)
            return self._commit([], vector, seen=seen)

        self._insist(place)

    def claim(self, firsts: Iterable[LedgerEntry]) -> list[LedgerEntry]:
        """Commit the offsets once more, which fences a running landing. An entry that exists keeps its offset."""
        wanted = list(firsts)

        def claim() -> Position:
            # Read in each attempt: a running landing may have advanced the offsets.
            seen = self.read_position()
            return self.commit([], seen.list_missing(wanted), seen=seen)

        found = self._insist(claim).entries
        return [found[entry.key] for entry in wanted]

    def enter(self, firsts: Iterable[LedgerEntry]) -> Position:
        """Where the landing stands, once it has all of these. One that is there stays where it is.

        Nothing is committed where none is missing, and the last commit is of these days.
        """
        wanted = list(firsts)

        def enter() -> Position:
            seen = self.read_position()
            if (left := seen.vector.held_until - _read_clock_ms()) > 0:
                raise UnreachableError(
                    f"{self.owner} can't run now: its table is about to be replaced by a rebuild",
                    hint=f"run it again in {-(-left // 1000)} s",
                )
            missing = seen.list_missing(wanted)
            return self.commit([], missing, seen=seen) if missing else self.renew(seen)

        return self._insist(enter)

    def hold(self, *, seconds: float) -> None:
        """Fence the run, and let none begin for some time: what follows needs the offsets to stay as they are."""
        until = _read_clock_ms() + int(seconds * 1000)

        def hold() -> Position:
            seen = self.read_position()
            return self._commit([], replace(seen.vector, run=uuid4().hex, held_until=until), seen=seen)

        self._insist(hold)

    def require(self, seen: Position) -> None:
        """Refuse where the landing is no longer where it was seen.

        Raises:
            FencedError: it is elsewhere.
        """
        found = self.read_position()
        if not found.is_same(seen):
            raise build_fenced(self.owner, found)

    def renew(self, seen: Position) -> Position:
        """Commit the offsets once more if the commit that contains them may soon be cleaned away.

        Delta keeps commits for `delta.logRetentionDuration`, by default 30 days, and a topic may be quiet for longer.
        The store is not asked whether it is time.

        Raises:
            FencedError: the landing is elsewhere.
        """
        configuration = self._table.metadata().configuration if self._table is not None else {}
        if seen.commit is None or _read_clock_ms() - seen.made_at_ms <= find_renewal_ms(configuration):
            return seen
        return self.commit([], [], seen=seen)

    def _insist(self, change: Callable[[], Position]) -> Position:
        """Make a commit without rows, which may lose to a run: nothing was landed."""
        for number in range(_TRIES):
            try:
                return change()
            except FencedError:
                if self._table_id:
                    # A rebuild was discarded, or another process continues it.
                    raise
                # A run has committed meanwhile. Who sets offsets goes before who lands.
                _pause(number)
        raise UnreachableError(
            f"could not set the offsets of {self.owner}",
            cause=f"a run of the pipeline committed first, {_TRIES} times",
            hint="stop the pipeline, then try again",
        )

    def _alter(self, change: Callable[[DeltaTable], None]) -> None:
        """Change the table. After a concurrent commit, read the table and retry."""
        for number in range(_TRIES):
            try:
                with self.telling():
                    return change(self.refresh())
            except StalePlanError as error:
                failure = error
                _pause(number)
        raise failure

    def _commit(
        self, files: Sequence[DataFile], vector: CommitOffsets, *, seen: Position, rewrite: Rewrite | None = None
    ) -> Position:
        changes: list[Any] = [build_add(file) for file in files]
        if rewrite is not None:
            changes += [build_remove(file) for file in rewrite.removed]

        tried: Position | None = None

        def commit() -> Position:
            nonlocal tried
            with self.telling():
                table = self.refresh()
                found = self._read_position(table, may_be_lost=True)
                if found.vector.run == vector.run:
                    # The answer to an earlier try was lost.
                    return found
                if not found.is_same(seen):
                    if tried is not None and self._read_run(tried.commit) == vector.run:
                        # The same, and another run has committed since.
                        return tried
                    raise build_fenced(self.owner, found)
                if rewrite is not None:
                    rewrite.check(table)
                tried = Position(table.version() + 1, vector, _read_clock_ms())
                self._write_commit(table, changes, _build_properties(table, vector))
                return tried

        return self._persist(commit, what=f"{self.owner} could not commit to {self.at.url}")

    def _persist(self, commit: Callable[[], Committed], *, what: str) -> Committed:
        """Try a commit for the next number, again and again."""
        failure: Exception | None = None
        for number in range(_TRIES):
            try:
                return commit()
            except StaleFilesError:
                raise
            except (StalePlanError, UnreachableError) as error:
                # The number was taken, by another writer or by this one, or the store has not answered.
                failure = error
            _pause(number)
        raise UnreachableError(
            what,
            cause=f"{_TRIES} attempts failed, the last one with: {failure}",
            hint="check the storage of the lake, then run the pipeline again; no rows are duplicated",
        )

    def open_version(self, version: int) -> DeltaTable:
        """Return the table as it was, for a block within `telling`.

        Raises:
            NotFoundError: The log no longer has the version.
        """
        try:
            return DeltaTable(self.log.table_url, version=version, storage_options=self.log.build_options())
        except DeltaError as error:
            raise build_forgotten(self.at, version, error) from None

    def read_contents(self, *, version: int | None = None) -> TableContents:
        """Read the files, columns and offsets of the table, now or at an earlier version.

        Raises:
            NotFoundError: There is no table, or the log no longer has the version.
            RefusedError: The log no longer has the offsets.
        """
        with self.telling():
            table = self.refresh() if version is None else self.open_version(version)
            position = self._read_position(table, may_be_lost=False)
            files = tuple(list_adds(table))
            return TableContents(table.version(), files, table.schema(), position.vector, position.made_at_ms)

    def replace_all(self, contents: TableContents, *, generation: int, check: Callable[[Position], None]) -> None:
        """Put other files, columns and offsets in the place of all that the table has.

        One commit does it, so that readers see the one or the other. A run of the pipeline is fenced by it.

        Args:
            contents: What the table is to have. The files must be in its folder.
            generation: The generation of the files.
            check: Called with the current position before each attempt; raises if the commit must not be made.

        Raises:
            UnknownOutcomeError: The store has not answered. The generation of the table shows whether it is done.
        """
        # An earlier version may have been held for the swap that replaced it.
        vector = replace(contents.vector, owner=self.owner, run=uuid4().hex, held_until=0, rebuild="")

        def replace_once() -> None:
            with self.telling():
                table = self.refresh()
                if table.transaction_version(GENERATION) == generation:
                    # The answer to an earlier try was lost.
                    return
                check(self._read_position(table, may_be_lost=True))
                properties = _build_properties(table, vector, Transaction(GENERATION, generation))
                self._write_commit(table, list(contents.files), properties, schema=contents.schema)

        try:
            self._persist(replace_once, what=f"{self.owner} could not replace the files of {self.at.url}")
        except UnreachableError as error:
            raise UnknownOutcomeError(error.message, cause=error.cause, hint=error.hint) from error

    def _write_commit(
        self, table: DeltaTable, changes: list[Any], properties: CommitProperties, *, schema: Schema | None = None
    ) -> None:
        """Write a commit; with a `schema` it replaces all files, and the columns too if they are others."""
        table.create_write_transaction(
            changes,
            mode="append" if schema is None else "overwrite",
            schema=schema or table.schema(),
            partition_by=table.metadata().partition_columns,
            commit_properties=properties,
        )

    def read_generation(self) -> int:
        """Return the generation of the table's files; 0 for those that no rebuild has written."""
        with self.telling():
            return self.refresh().transaction_version(GENERATION) or 0

    def _read_position(self, table: DeltaTable, *, may_be_lost: bool) -> Position:
        number = table.transaction_version(self.owner)
        if number is None:
            return Position(None, CommitOffsets(self.owner, ""))
        found = self._read_info(number)
        if found is None:
            if may_be_lost:
                return Position(number, CommitOffsets(self.owner, ""))
            raise RefusedError(
                f"the log of the table no longer has the offsets of {self.owner}",
                cause=f"its last commit, {number}, was deleted by Delta after delta.logRetentionDuration",
                hint="copy them from the group that shows its lag: seamark offsets copy "
                f"group/{find_mirror(self.owner)} {self.owner}",
            )
        info, vector = found
        made_at = info.get("timestamp")
        if vector.rebuild and vector.rebuild != str(table.metadata().id):
            # Its request was under way when the rebuild was discarded, and reached the log of this one.
            raise RefusedError(
                f"the rebuild of {self.at.url} has rows of another one, which was discarded; no changes were made",
                hint=f"discard it: seamark pipelines rebuild {parse_owner(self.owner).name} --discard",
            )
        return Position(number, vector, made_at if isinstance(made_at, int) else 0)

    def _read_info(self, number: int) -> tuple[Mapping[str, Any], CommitOffsets] | None:
        """Read what a commit of this pipeline says; None if Delta has cleaned it away."""
        place = f"{self.log.path}/_delta_log/{number:020}.json"
        try:
            with self.log.open_files().open_input_stream(place) as file:
                lines = file.read().splitlines()
        except FileNotFoundError:
            return None
        infos = [found["commitInfo"] for found in map(json.loads, lines) if "commitInfo" in found]
        info = infos[0] if infos else {}
        return info, read_vector(info.get("userMetadata"), place=place)

    def _read_run(self, number: int | None) -> str:
        """Return which run made a commit; "" if another program did, or if that isn't known."""
        try:
            found = None if number is None else self._read_info(number)
        except RefusedError:
            return ""
        return "" if found is None else found[1].run

    def _find(self) -> DeltaTable | None:
        try:
            return self.refresh()
        except NotFoundError:
            return None

    def refresh(self) -> DeltaTable:
        """The table as it is now, for a block within `telling`."""
        # A log that was begun again is read on from the version of the previous one, with its ID and columns.
        if self._table is not None and not self._table_id:
            self._table.update_incremental()
            return self._table
        try:
            self._table = DeltaTable(self.log.table_url, storage_options=self.log.build_options())
        except TableNotFoundError:
            if self._table_id:
                raise FencedError(
                    f"the rebuild of {self.at.url} was discarded or swapped in; this one has ended",
                    hint=f"begin another one: seamark pipelines rebuild {parse_owner(self.owner).name}",
                ) from None
            raise NotFoundError(
                f"no Delta table at {self.at.url}", hint="create it: seamark pipelines run NAME"
            ) from None
        if self._table_id and str(self._table.metadata().id) != self._table_id:
            self._table = None
            raise FencedError(
                f"the rebuild of {self.at.url} was discarded, and another one begun; this one has ended",
                hint=f"wait until the other one has ended: seamark pipelines rebuild {parse_owner(self.owner).name}",
            )
        return self._table

    @contextmanager
    def telling(self) -> Iterator[None]:
        """What the store says, in our words."""
        try:
            yield
        except SeamarkError:
            raise
        except CommitFailedError as error:
            raise StalePlanError(
                f"another process changed {self.at.url} in the meantime; no changes were made",
                cause=" ".join(str(error).split())[:300],
                hint="try again",
            ) from error
        except (OSError, DeltaError) as error:
            self._table = None
            raise UnreachableError(
                f"could not read or write {self.at.url}",
                cause=" ".join(str(error).split())[:300],
                hint="check url, endpoint and keys of the lake in the context, and that its storage is reachable",
            ) from error


def _build_properties(table: DeltaTable, vector: CommitOffsets, *more: Transaction) -> CommitProperties:
    return CommitProperties(
        custom_metadata={"userMetadata": vector.to_json()},
        # For this number and no other one.
        max_commit_retries=0,
        app_transactions=[Transaction(vector.owner, table.version() + 1), *more],
    )


def _build_deletion(until_ms: int) -> CommitProperties:
    return CommitProperties(max_commit_retries=0, app_transactions=[Transaction(_DELETION, until_ms)])


def _read_clock_ms() -> int:
    return int(time.time() * 1000)


def _pause(number: int) -> None:
    longest = min(_LONGEST_PAUSE_SECONDS, _PAUSE_SECONDS * 2 ** min(number, 6))
    time.sleep(longest * random.uniform(0.5, 1.0))  # noqa: S311 - so that two do not meet again
