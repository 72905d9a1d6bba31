"""Connectors as a spec wants them, before any server was asked."""

from __future__ import annotations

from collections.abc import Sequence

from seamark.connectors.spec import DesiredConnector
from seamark.core.sensitive import mask_config
from seamark.report.listing import Column, Listing, View

DESIRED_LISTING: Listing[DesiredConnector] = Listing(
    kind="DesiredConnectorList",
    noun="connector",
    name=lambda connector: connector.owner,
    columns=(
        Column("name", "NAME", lambda connector: connector.name),
        Column("cluster", "CLUSTER", lambda connector: connector.cluster),
        Column("state", "BEGINS", lambda connector: connector.state or "RUNNING"),
        Column(
            "plugin",
            "PLUGIN",
            lambda connector: connector.config.get("connector.class", ""),
            text=lambda connector: connector.config.get("connector.class", "").rpartition(".")[2],
            long=lambda connector: connector.config.get("connector.class", ""),
        ),
        Column("place", "DEFINED IN", lambda connector: str(connector.place)),
        Column("config", "", lambda connector: mask_config(connector.config, unread=False)),
    ),
)


def build_desired_view(connectors: Sequence[DesiredConnector]) -> View[DesiredConnector]:
    """The connectors of a spec."""
    return View(DESIRED_LISTING, connectors, empty="The files name no connector.")
