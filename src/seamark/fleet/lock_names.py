"""Which locks a change of a connector takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from seamark.change.locks import cluster_lock, connector_lock, group_lock, loggers_lock
from seamark.model.connector import ConnectorType

if TYPE_CHECKING:
    from seamark.context import ConnectSettings
    from seamark.fleet.clusters import Clusters
    from seamark.fleet.identity import Identities

OWN_OFFSETS_TOPIC = "offsets.storage.topic"
OWN_GROUP = "consumer.override.group.id"


def find_offsets_topic(config: Mapping[str, str], settings: ConnectSettings) -> str | None:
    """Return the topic that holds a source's offsets, or None where neither config nor context names one."""
    return config.get(OWN_OFFSETS_TOPIC) or settings.offsets_topic


def find_group(name: str, config: Mapping[str, str], settings: ConnectSettings) -> str:
    """Return the consumer group of a sink."""
    return config.get(OWN_GROUP) or settings.consumer_group_id or f"connect-{name}"


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
        from seamark.fleet.brokers.group_owners import read_owners  # noqa: PLC0415

        clusters = read_owners(self._clusters).clusters
        return [
            frozenset({group_lock(group, workers=self._identities.find_scope(found) if found else "")})
            for group, found in ((group, clusters.get(group, "")) for group in groups)
        ]
