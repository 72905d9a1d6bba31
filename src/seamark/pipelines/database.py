"""The database of a landing, for the driver, for tasks and for the services. Needs no Spark itself."""

from __future__ import annotations

import os
from pathlib import Path

from seamark.context.layer import Origin, OriginKind
from seamark.context.reference import SecretReferences
from seamark.pipelines.definition import Landing
from seamark.tables.postgres.table import LandingTable
from seamark.tables.postgres.writer import LandingDatabase

# Spark does not show options whose names have this word.
URL_OPTION = "database.url"


def open_landing_database(landing: Landing, url: str) -> LandingDatabase:
    """The database behind a DSN. A reference to a secret is resolved where this is called."""
    origin = Origin(OriginKind.OVERRIDE, "the database of a landing")
    dsn = SecretReferences(os.environ).resolve(url, key=URL_OPTION, origin=origin, folder=Path.cwd())
    return LandingDatabase(dsn, build_landing_table(landing), owner=landing.owner)


def build_landing_table(landing: Landing) -> LandingTable:
    """Build what statements need to know of the pipeline's table."""
    return LandingTable(
        landing.table,
        tuple(column.name for column in landing.columns),
        key=landing.key,
        times=tuple(column.name for column in landing.columns if column.type.startswith("timestamp")),
        order=landing.order_terms,
        tombstone_seconds=landing.tombstone_seconds,
        dead_letters=landing.dead_letter_table,
    )
