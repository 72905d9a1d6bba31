"""Tables in databases and lakes, with the ledgers that are committed together with their rows."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from seamark.errors import ConfigurationError, format_install_hint

if TYPE_CHECKING:
    from seamark.tables.postgres.counting import Database

__all__ = ["Database"]

_HOMES = {"Database": "seamark.tables.postgres.counting"}


def __getattr__(name: str) -> Any:
    # psycopg loads a C library, and may not be installed at all.
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    try:
        home = import_module(_HOMES[name])
    except ImportError as error:
        # Missing whole, or without the C library that it needs.
        raise ConfigurationError(
            "the PostgreSQL driver is not installed", cause=str(error), hint=format_install_hint("postgres")
        ) from error
    return getattr(home, name)
