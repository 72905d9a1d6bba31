"""Where a landing lands, as the services see it: its table, and how far it is. Needs no Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from seamark.errors import ConfigurationError, UsageError
from seamark.pipelines.declared import Declared
from seamark.pipelines.layout import build_lake_statements, build_statements
from seamark.tables.lakes import open_lake

if TYPE_CHECKING:
    from seamark.tables.delta.table import LakeTable
    from seamark.tables.ledger_entry import Entry
    from seamark.tables.postgres.landing import LandingDatabase


class TargetPort(Protocol):
    """A landing's table."""

    def read_offsets(self) -> dict[tuple[str, int], Entry]:
        """How far the landing is, by the topic's id and the partition."""

    def build_statements(self) -> tuple[str, ...]:
        """What is missing before a run, in words."""

    def make_fit(self, statements: tuple[str, ...]) -> None:
        """Do what those statements say."""


def open_target(declared: Declared) -> TargetPort:
    """The target of a landing."""
    return _LakeTarget(declared) if declared.lake is not None else _TableTarget(declared)


class _TableTarget:
    def __init__(self, declared: Declared) -> None:
        self._landing = declared.landing
        self._database = open_database(declared)

    def read_offsets(self) -> dict[tuple[str, int], Entry]:
        return self._database.read_if_any()

    def build_statements(self) -> tuple[str, ...]:
        return build_statements(self._landing, self._database.read_columns())

    def make_fit(self, statements: tuple[str, ...]) -> None:
        self._database.change_table(statements)


class _LakeTarget:
    def __init__(self, declared: Declared) -> None:
        self._landing = declared.landing
        self._table = open_table(declared)

    def read_offsets(self) -> dict[tuple[str, int], Entry]:
        return self._table.read_position().entries

    def build_statements(self) -> tuple[str, ...]:
        return build_lake_statements(self._landing, self._table.read_layout())

    def make_fit(self, statements: tuple[str, ...]) -> None:  # noqa: ARG002 - there is no SQL here
        from seamark.pipelines.lake_schema import make_fit  # noqa: PLC0415

        make_fit(self._table, self._landing)


def open_table(declared: Declared) -> LakeTable:
    """The table of a landing in a lake."""
    landing = declared.landing
    if declared.lake is None:
        raise UsageError(f"{landing.name} lands in a database, which has no files", hint="VACUUM is its own")
    place = open_lake(declared.lake)
    from seamark.tables.delta.table import LakeTable  # noqa: PLC0415

    return LakeTable(place.below(landing.table), owner=landing.owner)


def open_database(declared: Declared) -> LandingDatabase:
    """The database of a landing."""
    try:
        from seamark.pipelines.land_database import open_landing_database  # noqa: PLC0415
    except ImportError as error:
        raise ConfigurationError(
            "PostgreSQL's driver is not installed", cause=str(error), hint="pip install 'seamark[postgres]'"
        ) from error
    return open_landing_database(declared.landing, declared.url)
