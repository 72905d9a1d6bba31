"""The databases behind connectors, as far as the context names them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

from seamark.errors import SeamarkError
from seamark.offsets.read.behind import database_url

if TYPE_CHECKING:
    from seamark.context import Context
    from seamark.tables import Database


def open_database(context: Context, config: Mapping[str, str], stack: ExitStack) -> Database | str:
    """The database that a connector's config leads to, closed with `stack`; or why there is none to ask."""
    settings = context.find_database(database_url(config))
    if settings is None:
        return "the context names no database for this connector: add one under databases"
    try:
        from seamark.tables import Database  # noqa: PLC0415

        return stack.enter_context(Database(settings.dsn.reveal(), name=settings.name))
    except SeamarkError as error:
        return error.message
