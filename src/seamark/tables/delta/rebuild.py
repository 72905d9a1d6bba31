"""Write a Delta table again beside its files, and put the new files in their place by one commit; and back.

The files of a rebuild are written to the folder of the table, with a log of their own in a folder below it: no version
of the table has them, so readers don't see them. A transaction in the table's log has the generation of its files.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable

import pyarrow.fs as pafs

from seamark.core.refs import parse_owner
from seamark.errors import NotFoundError, RefusedError, StaleFilesError, UnreachableError
from seamark.tables.definition import Landing
from seamark.tables.delta.buckets import build_tombstone_path, parse_bucket_name
from seamark.tables.delta.commits import Position, build_forgotten
from seamark.tables.delta.files import build_table_schema
from seamark.tables.delta.location import TableLocation
from seamark.tables.delta.maintenance import explain_unreadable, open_rebuild
from seamark.tables.delta.stored_files import TableContents, build_layout
from seamark.tables.delta.table import GENERATION, LakeTable
from seamark.tables.delta.technology import build_lake_layout
from seamark.tables.model import TableRebuild, TableVersion, check_ahead

_DIGEST = "seamark.definition"
# Of the random digits of a table's ID, and of the digest: a transaction of Delta has 63 bits.
_ID_DIGITS, _DIGEST_BITS = 8, 28


class DeltaRebuild:
    """One table of a lake, and its rebuild."""

    def __init__(
        self, place: TableLocation, *, owner: str, list_sharers: Callable[[], Iterable[str]] = lambda: ()
    ) -> None:
        """Open nothing yet. `list_sharers` returns the other pipelines of the table."""
        self._table = LakeTable(place, owner=owner)
        self._rebuild = open_rebuild(self._table)
        self._list_sharers = list_sharers

    def read_current(self) -> TableVersion:
        """Return what the table has now.

        Raises:
            NotFoundError: There is no table.
        """
        return self._read_version(None)

    def find_rebuild(self) -> TableRebuild | None:
        """Return the rebuild that was begun, with whether its files were part of the table at any time."""
        rebuild = self._rebuild
        try:
            contents = rebuild.read_contents()
        except NotFoundError:
            return None
        except UnreachableError as error:
            raise explain_unreadable(rebuild, error) from error
        with rebuild.telling():
            opened = rebuild.refresh()
            metadata = opened.metadata()
            layout = build_layout(opened)
            digest = metadata.configuration.get(_DIGEST) or ""
        own = {file.path for file in contents.files}
        version = TableVersion(
            contents.version,
            build_generation(str(metadata.id), digest),
            len(contents.files),
            _count_rows(contents),
            contents.vector.by_key(),
            layout.columns,
        )
        # A rebuild without rows has no files to find.
        is_swapped = version.generation == self._table.read_generation() or not own.isdisjoint(self._list_known())
        return TableRebuild(str(metadata.id), digest, version, is_swapped=is_swapped)

    def begin_rebuild(self, definition: Landing, *, digest: str) -> str:
        """Begin a rebuild for a definition, without files and offsets. Returns its ID.

        Raises:
            RefusedError: The definition divides the table by other columns, other pipelines write to the table, or
                another rebuild was begun in the same moment.
        """
        self._check_alone()
        existing, wanted = self._table.read_layout(), build_lake_layout(definition)
        if existing is None:
            raise NotFoundError(
                f"no Delta table at {self._table.at.url}", hint=f"create it: seamark pipelines run {definition.name}"
            )
        if existing.parted_by != wanted.parted_by:
            raise RefusedError(
                f"table {definition.table} can't be rebuilt with another to.date",
                cause=f"it is partitioned by {', '.join(existing.parted_by) or 'nothing'}, and one commit can't change "
                "the partition columns of a Delta table",
                hint="define a pipeline of another name with a new table",
            )
        # The digest is in the commit that creates it: of two that begin, one creates.
        self._rebuild.create(
            build_table_schema(definition), partition_by=wanted.parted_by, properties={_DIGEST: digest}
        )
        found = self.find_rebuild()
        if found is None or found.digest != digest or found.is_swapped:
            raise RefusedError(
                f"another rebuild of {definition.table} was begun in the same moment; no changes were made",
                hint=f"wait until it has ended: seamark pipelines rebuild {definition.name}",
            )
        return found.id

    def _check_alone(self) -> None:
        """Check that all rows are this pipeline's: those of others would be gone, and not come back."""
        if others := sorted(self._list_sharers()):
            raise RefusedError(
                f"{self._table.at.url} can't be rebuilt; no changes were made",
                cause=f"{', '.join(others[:3])} also writes to it, and its rows would be gone",
                hint="give each pipeline a table of its own",
            )

    def discard_rebuild(self) -> bool:
        """Forget the rebuild, also one whose log is damaged. Vacuum deletes its files. Returns whether there was one.

        The newest commit is deleted first: what is left by a kill is the rebuild as it was earlier.
        """
        log = self._rebuild.log
        # What was read of its log is of no use for another one.
        self._rebuild = open_rebuild(self._table)
        try:
            store = log.open_files()
            found = store.get_file_info(pafs.FileSelector(log.path, recursive=True, allow_not_found=True))
            names = sorted((info.path for info in found if info.type is pafs.FileType.File), key=_order_log)
            for path in names:
                store.delete_file(path)
            if found:
                store.delete_dir(log.path)
        except FileNotFoundError:
            return True
        except OSError as error:
            raise UnreachableError(
                f"could not delete {log.url}",
                cause=" ".join(str(error).split())[:300],
                hint="check that the storage of the lake is reachable, and the permissions of its keys",
            ) from error
        return bool(names)

    def hold(self, *, seconds: float) -> None:
        """Fence a run of the pipeline, and let none begin for some time, or until the files are replaced."""
        self._table.hold(seconds=seconds)

    def swap_in(self, rebuild: str, *, generation: int) -> None:
        """Put the files, columns and offsets of a rebuild in the place of the table's, in one commit.

        Raises:
            NotFoundError: There is no such rebuild.
            StaleFilesError: The table has processed records that the rebuild hasn't, or another process has continued
                or discarded the rebuild meanwhile. Nothing was changed.
            RefusedError: Files of the rebuild are gone. Nothing was changed.
        """
        contents = self._rebuild.read_contents()
        with self._rebuild.telling():
            found = str(self._rebuild.refresh().metadata().id)
        if found != rebuild:
            raise NotFoundError(f"{self._table.owner} has no rebuild {rebuild}", cause=f"its rebuild is {found}")
        self._check_alone()
        self._check_files(contents)
        entries = contents.vector.by_key()

        def check(position: Position) -> None:
            self._check_kept(rebuild, contents.version)
            check_ahead(self._table.owner, position.entries, entries)

        self._table.replace_all(contents, generation=generation, check=check)

    def _check_kept(self, rebuild: str, version: int) -> None:
        """Check that a vacuum keeps the files of a version of the rebuild: it does if that is the newest in its log.

        Called after the table was read: a vacuum that finds the log discarded commits before the swap, or not at all.
        """
        log = open_rebuild(self._table)
        try:
            with log.telling():
                opened = log.refresh()
                is_kept = (str(opened.metadata().id), opened.version()) == (rebuild, version)
        except NotFoundError:
            is_kept = False
        if not is_kept:
            raise StaleFilesError(
                f"another process continued or discarded the rebuild of {self._table.at.url}; no changes were made",
                hint="wait until it has ended: seamark pipelines rebuild " + parse_owner(self._table.owner).name,
            )

    def find_version(self, generation: int, *, since: int) -> TableVersion:
        """Return the last version of a generation, looking from the version `since` on.

        Raises:
            NotFoundError: The log no longer has it.
            RefusedError: Files of it were deleted.
        """
        found = self._read_version(self._find_last(since))
        if found.generation != generation:
            raise NotFoundError(
                f"version {found.version} of {self._table.at.url} has other files than expected",
                cause=f"its generation is {found.generation}, not {generation}: the table was replaced",
                hint="rebuild the table again",
            )
        self._check_files(self._table.read_contents(version=found.version))
        return found

    def restore(self, version: int, *, generation: int) -> None:
        """Put the files, columns and offsets of an earlier version in the place of the table's, in one commit.

        Raises:
            NotFoundError: The log no longer has the version.
            RefusedError: Files of it were deleted, or a vacuum is deleting files. Nothing was changed.
        """
        self._check_alone()
        contents = self._table.read_contents(version=version)

        def check(_: Position) -> None:
            # In this order: what a vacuum has deleted before the version that is read is missed by the list.
            self._table.check_undeleted()
            self._check_files(contents)

        self._table.replace_all(contents, generation=generation, check=check)

    def _read_version(self, version: int | None) -> TableVersion:
        contents = self._table.read_contents(version=version)
        with self._table.telling():
            opened = self._table.refresh() if version is None else self._table.open_version(version)
            layout = build_layout(opened)
            generation = opened.transaction_version(GENERATION) or 0
        return TableVersion(
            contents.version,
            generation,
            len(contents.files),
            _count_rows(contents),
            contents.vector.by_key(),
            layout.columns,
        )

    def _find_last(self, since: int) -> int:
        """Find the last version before the first commit after `since` that replaced all files.

        Raises:
            NotFoundError: The log no longer has the commits after `since`.
        """
        place, number = self._table.log, since
        store = place.open_files()
        with self._table.telling():
            newest = self._table.refresh().version()
            while number < newest:
                try:
                    with store.open_input_stream(f"{place.path}/_delta_log/{number + 1:020}.json") as file:
                        lines = [json.loads(line) for line in file.read().splitlines()]
                except FileNotFoundError as error:
                    raise build_forgotten(self._table.at, number + 1, error) from None
                if any(line.get("txn", {}).get("appId") == GENERATION for line in lines):
                    break
                number += 1
        return number

    def _list_known(self) -> set[str]:
        """List the files that the table has, or had and still keeps."""
        with self._table.telling():
            opened = self._table.refresh()
            replaced = opened.vacuum(retention_hours=0, dry_run=True, enforce_retention_duration=False, full=False)
        return {file.path for file in self._table.list_files().files} | set(replaced)

    def _check_files(self, contents: TableContents) -> None:
        """Check that all files are there: a commit with missing files would break every reader."""
        place = self._table.at
        wanted = {path for file in contents.files for path in _list_paths(file.path)}
        try:
            infos = place.open_files().get_file_info(pafs.FileSelector(place.path, recursive=True))
        except OSError as error:
            raise UnreachableError(
                f"could not list the files of {place.url}",
                cause=" ".join(str(error).split())[:300],
                hint="check that the storage of the lake is reachable, and the permissions of its keys",
            ) from error
        missing = sorted(wanted - {info.path.removeprefix(f"{place.path}/") for info in infos})
        if missing:
            raise RefusedError(
                f"{len(missing)} of {len(wanted)} files of version {contents.version} of {place.url} were deleted; no "
                "changes were made",
                cause=f"for example {missing[0]}; vacuum deletes files that no current version has",
                hint="rebuild the table again",
            )


def _order_log(path: str) -> tuple[bool, list[int]]:
    """Order the files of a log: what points to a checkpoint first, then the newest."""
    name = path.rpartition("/")[2]
    number = name.partition(".")[0]
    return (number.isdigit(), [-int(number)] if number.isdigit() else [])


def _list_paths(path: str) -> Iterable[str]:
    """List a file and, if it has them, its tombstones."""
    found = parse_bucket_name(path, size=0)
    return (path, build_tombstone_path(path)) if found is not None and found.has_tombstones else (path,)


def _count_rows(contents: TableContents) -> int | None:
    counts = [json.loads(file.stats).get("numRecords") for file in contents.files]
    return None if None in counts else sum(counts)


def build_generation(table_id: str, digest: str) -> int:
    """Return the generation of the files of a rebuild: a number of 60 bits, of which 28 are of its definition."""
    return int(table_id.replace("-", "")[:_ID_DIGITS], 16) << _DIGEST_BITS | _shorten(digest)


def is_generation_of(generation: int, digest: str) -> bool:
    """Return whether a definition may have written the files of a generation. That is unknown for the first one."""
    return not generation or generation & ((1 << _DIGEST_BITS) - 1) == _shorten(digest)


def _shorten(digest: str) -> int:
    return zlib.crc32(digest.encode()) >> (32 - _DIGEST_BITS)
