"""How far a source is behind, asked of its database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from seamark.connect.connector import Connector
from seamark.core.distance import Certainty, Counted, Distance, TableRows, WalBytes, settle
from seamark.core.offset import Offset
from seamark.offsets.semantics.registry import find_meaning

if TYPE_CHECKING:
    from seamark.tables import Database


def rows_behind(connector: Connector, offset: Offset, database: Database) -> Counted:
    """What a source has not read yet, counted in its database: rows, or bytes of the log for Debezium.

    It never takes longer than the database's time limit; then it is an estimate, and says so.

    Raises:
        SeamarkError: the database can't be reached or does not let us count.
    """
    meaning = find_meaning(connector.plugin, connector.config)
    return measure_behind(meaning.build_distance(offset.partition, offset.offset, None), database)


def measure_behind(distance: Distance, database: Database) -> Counted:
    """Run the count of a distance, where a database can."""
    known = settle(distance)
    if known is not None:
        return known
    if isinstance(distance.count, TableRows | WalBytes):
        return database.count(distance)
    return Counted(distance.unit, None, Certainty.UNKNOWN, "a database can't count it")


def database_url(config: Mapping[str, str]) -> str | None:
    """The JDBC URL of the database that a connector reads or writes; None where its config names none."""
    if url := (config.get("connection.url") or "").strip():
        return url
    host, name = (config.get("database.hostname") or "").strip(), (config.get("database.dbname") or "").strip()
    if not host or not name:
        return None
    return f"jdbc:postgresql://{host}:{(config.get('database.port') or '5432').strip()}/{name}"
