"""A table in memory that can be rebuilt: its versions, and a rebuild beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from seamark.errors import NotFoundError, StaleFilesError
from seamark.tables.definition import Landing
from seamark.tables.model import LedgerEntry, TableRebuild, TableVersion, check_ahead

Entries = Mapping[tuple[str, int], LedgerEntry]


@dataclass
class FakeRebuildable:
    """`versions` are all that the table had; `lost` are those whose files vacuum has deleted."""

    versions: list[TableVersion]
    owner: str = "pipeline/orders"
    rebuild: TableRebuild | None = None
    lost: set[int] = field(default_factory=set)
    held: float = 0.0
    calls: list[str] = field(default_factory=list)

    def read_current(self) -> TableVersion:
        if not self.versions:
            raise NotFoundError("no Delta table at s3://lake/raw/orders", hint="create it: seamark pipelines run NAME")
        return self.versions[-1]

    def commit(self, **changes: object) -> None:
        """Add a version, as a batch does."""
        current = self.read_current()
        self.versions.append(replace(current, version=current.version + 1, **changes))  # type: ignore[arg-type]

    def find_rebuild(self) -> TableRebuild | None:
        return self.rebuild

    def begin_rebuild(self, definition: Landing, *, digest: str) -> str:
        empty = TableVersion(0, 77, 0, 0, {}, {column.name: column.type for column in definition.columns})
        self.rebuild = TableRebuild("r77", digest, empty)
        return self.rebuild.id

    def discard_rebuild(self) -> bool:
        self.calls.append("discard")
        found, self.rebuild = self.rebuild, None
        return found is not None

    def hold(self, *, seconds: float) -> None:
        self.held = seconds
        self.commit()

    def swap_in(self, rebuild: str, *, generation: int) -> None:
        self.calls.append("swap")
        if self.rebuild is None or self.rebuild.id != rebuild:
            raise NotFoundError(f"{self.owner} has no rebuild {rebuild}")
        contents = self.rebuild.contents
        check_ahead(self.owner, self.read_current().entries, contents.entries)
        self._replace(contents, generation)

    def find_version(self, generation: int, *, since: int) -> TableVersion:
        number = since
        while number + 1 < len(self.versions) and self.versions[number + 1].generation == generation:
            number += 1
        found = self.versions[number]
        if found.generation != generation or number in self.lost:
            raise NotFoundError("the log of s3://lake/raw/orders no longer has that version")
        return found

    def restore(self, version: int, *, generation: int) -> None:
        self.calls.append("restore")
        self._replace(self.versions[version], generation)

    def _replace(self, contents: TableVersion, generation: int) -> None:
        current = self.read_current()
        if current.generation == generation:
            raise StaleFilesError("it is done already")
        self.versions.append(replace(contents, version=current.version + 1, generation=generation))
