"""The technologies that hold rows and offsets, found by registration, and what each of them provides.

A technology has three halves, one per process. In the planning process it opens ledgers (`LedgerStore`) and tables
(`PipelineTable`). On the driver of a run its `driver` reads, claims and lands. That driver decides what its executor
tasks run. Packages other than `tables` ask this module, and name no technology.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from seamark.core.readings import Reading
from seamark.core.refs import build_pipeline_owner, is_pipeline
from seamark.errors import SeamarkError, UsageError
from seamark.tables.model import FilePart, LedgerEntry, TableRebuild, TableStatus, TableVersion

if TYPE_CHECKING:
    from seamark.context import Context
    from seamark.tables.definition import Landing

GROUP = "seamark.tables"
"""Installed packages name their technologies as entry points of this group."""
DEFAULT_KIND = "postgresql"
# Named and not imported: psycopg, Arrow and delta-rs may be missing, and a command loads only what it uses.
_OWN = (
    "seamark.tables.postgres.technology:PostgresTechnology",
    "seamark.tables.delta.technology:DeltaTechnology",
)


class LedgerPort(Protocol):
    """The entries of one owner. Rows and entries are committed together, so the ledger is the only truth."""

    def read(self) -> dict[tuple[str, int], LedgerEntry]:
        """Return all entries, by topic ID and partition."""

    def place(self, entries: Iterable[LedgerEntry], *, gone: Iterable[LedgerEntry] = ()) -> None:
        """Set these entries and remove those, all or none. A run that holds one of them is fenced."""

    def claim(self, firsts: Iterable[LedgerEntry]) -> Sequence[LedgerEntry]:
        """Take these entries from any run that holds them: their epochs change. A missing one begins as given."""


class LedgerStore(Protocol):
    """A database, a lake or another place of the context that has ledgers. It is opened by the first call."""

    def find(self, owner: str) -> LedgerPort | None:
        """Return the ledger of an owner; None if this store doesn't know the owner."""

    def begin(self, owner: str) -> LedgerPort | None:
        """Return a new ledger for an owner; None if a ledger begins with the first run only."""

    def list_owners(self, *, prefix: str) -> Sequence[str]:
        """Return the owners whose names begin with a prefix."""

    def read_identity(self) -> str:
        """Return what tells this store from others, because a context may have one store under two names."""


class PipelineTable(Protocol):
    """The table of a pipeline, in the planning process."""

    def read_offsets(self) -> Mapping[tuple[str, int], LedgerEntry]:
        """Return the entries of the pipeline; none before its first run."""

    def read_status(self) -> TableStatus:
        """Return the entries and how many rows there are. Must not read rows, because there may be billions."""

    def plan_layout(self) -> tuple[str, ...]:
        """Return what is missing before a run, as statements to show.

        Raises:
            RefusedError: The table can't be made to fit.
        """

    def apply_layout(self, statements: Sequence[str]) -> None:
        """Make the table fit, as the statements of `plan_layout` say."""

    def list_files(self) -> Sequence[FilePart]:
        """Return the number and size of the table's files.

        Raises:
            UsageError: The technology has no files of its own to compact.
        """

    def list_unneeded(self, *, keep_seconds: float) -> Sequence[str]:
        """Return the files that no version of the table of the last `keep_seconds` has.

        Raises:
            UsageError: The technology has no files of its own.
            RefusedError: The time is too short for readers and running batches.
        """


class RebuildableTable(Protocol):
    """A table whose files can be written again beside the current ones, and swapped in by one commit."""

    def read_current(self) -> TableVersion:
        """Return what the table has now.

        Raises:
            NotFoundError: There is no table.
        """

    def find_rebuild(self) -> TableRebuild | None:
        """Return the rebuild that was begun and not swapped in yet; None if there is none."""

    def begin_rebuild(self, definition: Landing, *, digest: str) -> str:
        """Begin a rebuild for a definition, without files and offsets. Returns its ID.

        Raises:
            RefusedError: The definition divides the table by other columns, which one commit can't change.
        """

    def discard_rebuild(self) -> bool:
        """Forget the rebuild. Vacuum deletes its files. Returns whether there was one."""

    def hold(self, *, seconds: float) -> None:
        """Fence a run of the pipeline, and let none begin for some time, or until the files are replaced."""

    def swap_in(self, rebuild: str, *, generation: int) -> None:
        """Put the files, columns and offsets of a rebuild in the place of the table's, in one commit.

        Raises:
            NotFoundError: There is no such rebuild.
            StaleFilesError: The table has processed records that the rebuild hasn't. Nothing was changed.
            RefusedError: Files of the rebuild are gone. Nothing was changed.
        """

    def find_version(self, generation: int, *, since: int) -> TableVersion:
        """Return the last version of a generation, looking from the version `since` on.

        Raises:
            NotFoundError: The log no longer has it.
            RefusedError: Files of it were deleted.
        """

    def restore(self, version: int, *, generation: int) -> None:
        """Put the files, columns and offsets of an earlier version in the place of the table's, in one commit."""


class LedgerTechnology(Protocol):
    """A technology that has ledgers, with or without tables.

    Attributes:
        kind: Its name in definitions and errors.
        place: What one of its stores is called: the word before a store's name, and the key below `to:`.
        has_consumers: Whether exact consumers may keep their offsets in it, too.
    """

    kind: ClassVar[str]
    place: ClassVar[str]
    has_consumers: ClassVar[bool]

    def find_settings(self, context: Context) -> Mapping[str, Any]:
        """Return the settings of its stores in a context, by name. Nothing is opened, and no secret is looked up."""

    def open_store(self, settings: Any) -> LedgerStore:
        """Return the store of these settings."""


class Technology(LedgerTechnology, Protocol):
    """A technology that is a target of pipelines.

    Attributes:
        place_help: The help of the key `place` in spec files.
        dead_letter_table: The default table of dead letters; empty if they are rows of the pipeline's own table.
        has_coordinates: Whether new tables have columns for the coordinates of each record by default.
        has_files: Whether its tables are files that are merged and deleted by us.
        has_structs: Whether its tables have structs and arrays; else nested values are stored as JSON.
        widen_hint: What to do if a column of the source has a wider type than that of `{table}`: a text with
            `{table}`, `{column}` and `{type}`; empty if another table is the only way.
        driver: Where the half for the driver of a run is, as an entry point names it: `MODULE:CLASS`. It is called
            with the definition and with what `open_access` returns, and is a `seamark.pipelines.spark_job.LandTarget`.
    """

    place_help: ClassVar[str]
    dead_letter_table: ClassVar[str]
    has_coordinates: ClassVar[bool]
    has_files: ClassVar[bool]
    has_structs: ClassVar[bool] = False
    widen_hint: ClassVar[str] = ""
    driver: ClassVar[str]

    def check_definition(self, definition: Landing) -> None:
        """Check a definition without I/O.

        Raises:
            UsageError: The technology can't hold it: its mode, its types, or keys of another technology.
        """

    def build_example(self, name: str) -> str:
        """Return the lines of a context file that add a store of this name."""

    def open_table(self, settings: Any, definition: Landing) -> PipelineTable:
        """Return the table of a pipeline."""

    def open_access(self, settings: Any) -> Any:
        """Return what a run needs to reach the store, with secrets. Must be looked up only when a run begins."""

    def open_rebuildable(self, settings: Any, table: str, *, owner: str) -> RebuildableTable:
        """Return a table of a pipeline for its rebuild.

        Raises:
            UsageError: The technology has no versions of a table.
        """
        raise UsageError(
            f"a table of a {self.place} can't be rebuilt: {table}",
            hint="define a pipeline of another name with a new table, and drop the previous one",
        )

    def read_columns(self, settings: Any, table: str) -> Mapping[str, str]:
        """Read the types of a table that a source connector reads, by column.

        Raises:
            UsageError: The technology has no tables that source connectors read.
        """
        raise UsageError(
            f"the columns of a {self.place} can't be read: {settings.name}", hint="use a table of a database"
        )


@dataclass(frozen=True, slots=True)
class NamedStore:
    """A store of a context: its name there, the word before the name, and the store."""

    name: str
    place: str
    store: LedgerStore
    has_consumers: bool

    def __str__(self) -> str:
        """As failures name it."""
        return f"{self.place} {self.name}"


class TechnologyRegistry:
    """All technologies, seamark's own first. `failures` are the packages that could not be used, with the reason."""

    def __init__(self, technologies: Iterable[LedgerTechnology], failures: Mapping[str, str] | None = None) -> None:
        self.ledgers = tuple(technologies)
        self.failures = dict(failures or {})

    @property
    def tables(self) -> tuple[Technology, ...]:
        """Those that are targets of pipelines."""
        return tuple(one for one in self.ledgers if _is_target(one))  # type: ignore[misc]

    def find(self, kind: str) -> Technology:
        """Return the target of a kind.

        Raises:
            UsageError: There is none.
        """
        return self._find(kind, {one.kind: one for one in self.tables}, what="kind of table")

    def find_place(self, place: str) -> Technology:
        """Return the target by its key below `to:`.

        Raises:
            UsageError: There is none.
        """
        return self._find(place, {one.place: one for one in self.tables}, what="key of to")

    def list_stores(self, context: Context) -> Iterator[NamedStore]:
        """List the stores of a context. Nothing is opened."""
        for one in self.ledgers:
            for name, settings in one.find_settings(context).items():
                yield NamedStore(name, one.place, one.open_store(settings), one.has_consumers)

    def _find(self, word: str, known: Mapping[str, Technology], *, what: str) -> Technology:
        if word not in known:
            broken = "; ".join(f"{name}: {reason}" for name, reason in self.failures.items())
            raise UsageError(
                f"unknown {what} {word!r}",
                cause=broken and f"not loaded: {broken}",
                hint=f"use one of {', '.join(known)}",
            )
        return known[word]


_LEDGER_PARTS = ("kind", "place", "has_consumers", "find_settings", "open_store")
_TABLE_PARTS = (
    *_LEDGER_PARTS,
    "place_help",
    "dead_letter_table",
    "has_coordinates",
    "has_files",
    "driver",
    "check_definition",
    "build_example",
    "open_table",
    "open_access",
)


def _is_target(technology: LedgerTechnology) -> bool:
    return callable(getattr(technology, "open_table", None))


@cache
def open_registry() -> TechnologyRegistry:
    """Return the technologies of this process: seamark's own, and those of installed packages."""
    found: list[LedgerTechnology] = [resolve_name(name)() for name in _OWN]
    failures: dict[str, str] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            technology = point.load()()
            _check_new(technology, found)
        except Exception as error:  # noqa: BLE001 - a broken package must not break every other command
            failures[point.name] = f"{type(error).__name__}: {error}"
        else:
            found.append(technology)
    return TechnologyRegistry(found, failures)


def _check_new(technology: LedgerTechnology, known: Sequence[LedgerTechnology]) -> None:
    """Check what a package brings: it must be complete, and can't take the place of another technology."""
    wanted = _TABLE_PARTS if _is_target(technology) else _LEDGER_PARTS
    missing = [name for name in wanted if not hasattr(technology, name)]
    if missing:
        raise TypeError(f"it has no {', '.join(missing)}")
    if any(technology.kind == one.kind or technology.place == one.place for one in known):
        raise TypeError(f"{technology.kind} ({technology.place}) is registered already")


def find_technology(kind: str) -> Technology:
    """Return the target of a kind.

    Raises:
        UsageError: There is none.
    """
    return open_registry().find(kind)


def list_stores(context: Context) -> tuple[NamedStore, ...]:
    """Return the stores of a context that have ledgers. Nothing is opened."""
    return tuple(open_registry().list_stores(context))


def list_owners(context: Context) -> Reading[str]:
    """Read every owner `pipeline/NAME`; failures by the store that did not answer."""
    return _read_owners(list_stores(context), prefix=build_pipeline_owner(""))


def list_consumers(context: Context) -> frozenset[str]:
    """Read every owner that isn't a pipeline: exact consumers, mostly by the names of their groups.

    Stores that don't answer are left out; `list_owners` reports them.
    """
    stores = [one for one in list_stores(context) if one.has_consumers]
    return frozenset(owner for owner in _read_owners(stores, prefix="").items if not is_pipeline(owner))


def _read_owners(stores: Iterable[NamedStore], *, prefix: str) -> Reading[str]:
    found: set[str] = set()
    failures: dict[str, SeamarkError] = {}
    for one in stores:
        try:
            found.update(one.store.list_owners(prefix=prefix))
        except SeamarkError as error:
            failures[str(one)] = error
    return Reading(tuple(sorted(found)), failures=failures)
