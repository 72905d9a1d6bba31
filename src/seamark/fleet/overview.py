"""What `connectors show` reads of a connector, from Connect, the brokers and the journal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from seamark.errors import JournalError
from seamark.groups.lag import read_owned_lag
from seamark.overview.connector import LAST_CHANGES, ConnectorOverview, OverviewReaders, read_overview
from seamark.specs.ownership import find_spec

if TYPE_CHECKING:
    from seamark.changes.journal import Head, JournalPort
    from seamark.connect.clusters import Clusters
    from seamark.connect.model import Connector
    from seamark.fleet.environment import LiveEnvironment
    from seamark.fleet.identity import Identities
    from seamark.fleet.journal import Journal


def read_fleet_overview(
    connector: Connector,
    clusters: Clusters,
    *,
    world: LiveEnvironment,
    journal: Journal,
    open_journal: Callable[[], JournalPort],
    names: Identities,
) -> ConnectorOverview:
    """Return a connector with its topics, offsets or lag, spec and last changes."""

    def read_history() -> tuple[Sequence[Head], str]:
        try:
            return journal.list([connector], limit=LAST_CHANGES), find_spec(connector.owner, open_journal, names)
        except JournalError:
            if journal.read_setup().missing:
                # Nothing was changed yet.
                return (), ""
            raise

    return read_overview(
        connector,
        OverviewReaders(
            clusters.client(connector.cluster),
            clusters.settings(connector.cluster),
            read_lag=lambda owners: read_owned_lag(world.kafka(), owners, now=world.clock.now()).items,
            read_history=read_history,
        ),
    )
