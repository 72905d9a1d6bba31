"""Contexts: the listing, and the settings of one with their origins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from seamark.report.listing import Column, Listing, View
from seamark.report.text import Style


class ShownSetting(Protocol):
    """One setting, already masked, and where it came from: all that is needed of `seamark.context`."""

    @property
    def key(self) -> str:
        """Its dotted path."""

    @property
    def value(self) -> str:
        """What it says."""

    @property
    def origin(self) -> object:
        """Where it is said; its `str` is shown."""


@dataclass(frozen=True, slots=True)
class ContextRow:
    """One context in the listing. `error` says why it can't be opened."""

    name: str
    current: bool = False
    protected: bool = False
    bootstrap_servers: str = ""
    clusters: tuple[str, ...] = ()
    error: str = ""


LISTING: Listing[ContextRow] = Listing(
    kind="ContextList",
    noun="context",
    name=lambda row: row.name,
    columns=(
        Column("current", "CURRENT", lambda row: row.current, text=lambda row: "*" if row.current else ""),
        Column("name", "NAME", lambda row: row.name),
        Column("clusters", "CONNECT", lambda row: list(row.clusters), text=lambda row: ",".join(row.clusters) or "-"),
        Column("bootstrap_servers", "KAFKA", lambda row: row.bootstrap_servers),
        Column("protected", "PROTECTED", lambda row: row.protected, text=lambda row: "yes" if row.protected else "no"),
        Column("error", "ERROR", lambda row: row.error, style=lambda row: Style.BAD if row.error else Style.PLAIN),
    ),
)

_KEY: Column[ShownSetting] = Column("key", "KEY", lambda setting: setting.key)
_VALUE: Column[ShownSetting] = Column("value", "VALUE", lambda setting: setting.value)
_ORIGIN: Column[ShownSetting] = Column(
    "origin", "ORIGIN", lambda setting: str(setting.origin), style=lambda _: Style.MUTED
)


def build_contexts_view(rows: Sequence[ContextRow]) -> View[ContextRow]:
    """Every context that is known."""
    return View(LISTING, rows, empty="no contexts; add one with: seamark context add NAME --connect URL")


def build_settings_view(name: str, settings: Sequence[ShownSetting], *, origins: bool) -> View[ShownSetting]:
    """The settings of one context, with `origins` also where each came from."""
    columns = (_KEY, _VALUE, _ORIGIN) if origins else (_KEY, _VALUE)
    listing = Listing(kind="Context", noun="setting", name=lambda setting: setting.key, columns=columns)
    return View(listing, settings, body=lambda: {"name": name, "settings": listing.build_items(settings)})
