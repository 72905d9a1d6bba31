"""The databases behind connectors, which seamark counts rows in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from seamark.context.context import Lookup
from seamark.context.layer import KeyPath
from seamark.context.schema import DATABASE_KEYS
from seamark.context.settings import DatabaseSettings
from seamark.context.typed import build_invalid, read_text, refuse_reference
from seamark.context.value import Value

DATABASES = "databases"


@dataclass(frozen=True, slots=True)
class DatabasePart:
    """The databases with the values they were made of."""

    databases: Mapping[str, DatabaseSettings] = field(default_factory=dict)
    values: tuple[Value, ...] = ()


def build_databases(names: list[str], own: Mapping[KeyPath, Value], *, lookup: Lookup) -> DatabasePart:
    """The databases of those names. `own` are the values of the context."""
    found: dict[str, DatabaseSettings] = {}
    shown: list[Value] = []
    for name in names:
        values = {key: own[DATABASES, name, key] for key in DATABASE_KEYS if (DATABASES, name, key) in own}
        for key in DATABASE_KEYS:
            if key not in values:
                raise lookup.build_missing(f"{DATABASES}.{name}.{key}")
        found[name] = DatabaseSettings(name, _read_jdbc_url(values["jdbc_url"]), values["dsn"].as_secret())
        shown += values.values()
    return DatabasePart(found, tuple(shown))


def _read_jdbc_url(value: Value) -> str:
    refuse_reference(value)
    url = read_text(value)
    if not url.startswith("jdbc:postgresql:"):
        raise build_invalid(value, "is no JDBC URL of PostgreSQL", hint="write jdbc:postgresql://HOST:PORT/DATABASE")
    if "?" in url:
        raise build_invalid(value, "has parameters", hint="leave out ? and what follows: it is not compared")
    return url
