"""Which locks a change of a connector takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from seamark.changes.locks import cluster_lock, connector_lock, group_lock, loggers_lock
from seamark.connect.config import find_group
from seamark.core.refs import ConnectorType

if TYPE_CHECKING:
    from seamark.connect.clusters import Clusters
    from seamark.fleet.identity import Identities


class FleetLocks:
    """The lock names of one context's Connect clusters."""

    def __init__(self, clusters: Clusters, identities: Identities) -> None:
        self._clusters = clusters
        self._identities = identities

    def find_connector(
        self, cluster: str, name: str, configs: Sequence[Mapping[str, str]], *, kind: ConnectorType
    ) -> frozenset[str]:
        """Return the locks of a connector, with all the configs that it has or will have.

        A connector of unknown type takes the locks of a source and of a sink.
        """
        settings, workers = self._clusters.settings(cluster), self._identities.find_scope(cluster)
        locks = set() if kind is ConnectorType.SINK else {connector_lock(name, workers=workers)}
        if kind is not ConnectorType.SOURCE:
            locks |= {group_lock(find_group(name, config, settings), workers=workers) for config in configs}
        return frozenset(locks)

    def find_cluster(self, cluster: str) -> str:
        """Return the lock of a whole Connect cluster."""
        return cluster_lock(self._identities.find_scope(cluster))

    def find_loggers(self, cluster: str) -> str:
        """Return the lock of the log levels of a cluster's workers."""
        return loggers_lock(self._identities.find_scope(cluster))

    def find_groups(self, groups: Sequence[str]) -> Sequence[frozenset[str]]:
        """Return the locks of consumer groups; a sink's group is one of its Connect cluster."""
        from seamark.groups.group_owners import read_owners  # noqa: PLC0415

        clusters = read_owners(self._clusters).clusters
        return [
            frozenset({group_lock(group, workers=self._identities.find_scope(found) if found else "")})
            for group, found in ((group, clusters.get(group, "")) for group in groups)
        ]
