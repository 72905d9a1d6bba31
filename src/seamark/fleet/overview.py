"""What `connectors show` reads of a connector, from Connect, the brokers and the journal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from seamark.core.readings import Reading
from seamark.core.refs import OwnerPatterns, build_group_owner
from seamark.errors import JournalError, SeamarkError
from seamark.groups.lag import GroupLag, GroupOwners, read_owned_lag
from seamark.overview.connector import LAST_CHANGES, ConnectorOverview, History, OverviewReaders, read_overview
from seamark.specs.ownership import find_spec

if TYPE_CHECKING:
    from seamark.changes.identity import ConnectIdentity
    from seamark.changes.journal import JournalPort
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

    def read_history() -> History:
        try:
            return History(
                journal.list([connector], limit=LAST_CHANGES),
                find_spec(connector.owner, open_journal, _OwnCluster(connector, names)),
                world.labels.find(connector.cluster, connector.name).labels,
            )
        except JournalError:
            if journal.read_setup().missing:
                # Nothing was changed yet.
                return History()
            raise

    def read_lag(owners: GroupOwners) -> Reading[GroupLag]:
        only = OwnerPatterns(tuple(map(build_group_owner, owners.sinks)))
        return read_owned_lag(world.kafka(), owners, now=world.clock.now(), only=only)

    return read_overview(
        connector,
        OverviewReaders(
            clusters.client(connector.cluster),
            clusters.settings(connector.cluster),
            read_lag=read_lag,
            read_history=read_history,
        ),
    )


@dataclass(frozen=True, slots=True)
class _OwnCluster:
    """The Connect cluster of one connector: whether a spec owns the connector, no other one has to be asked."""

    connector: Connector
    identities: Identities

    @property
    def names(self) -> tuple[str, ...]:
        return (self.connector.cluster,)

    def identify(self, name: str) -> ConnectIdentity | None:
        try:
            found = self.identities.find_for_reading(name)
        except SeamarkError:
            return None
        # Without brokers the workers identify it: those that run the connector are named as plans name them.
        status = self.connector.status
        hosts = [status.worker_id, *(task.worker_id for task in status.tasks)] if status else []
        return (
            replace(found, worker_ids=tuple(sorted({*found.worker_ids, *filter(None, hosts)})))
            if found.worker_ids
            else found
        )
