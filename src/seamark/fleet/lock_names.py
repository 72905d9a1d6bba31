"""Which locks a change of a connector takes: those of the things, not of the names somebody gave them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from seamark.change.locks import cluster_lock, connector_lock, group_lock, loggers_lock
from seamark.model.connector import ConnectorType

if TYPE_CHECKING:
    from seamark.context import ConnectSettings
    from seamark.fleet.clusters import Clusters

OWN_OFFSETS_TOPIC = "offsets.storage.topic"
OWN_GROUP = "consumer.override.group.id"


def find_offsets_topic(config: Mapping[str, str], settings: ConnectSettings) -> str | None:
    """The topic that holds a source's offsets, or None where nobody tells."""
    return config.get(OWN_OFFSETS_TOPIC) or settings.offsets_topic


def find_group(name: str, config: Mapping[str, str], settings: ConnectSettings) -> str:
    """The consumer group of a sink."""
    return config.get(OWN_GROUP) or settings.consumer_group_id or f"connect-{name}"


def build_locks(
    name: str, configs: Sequence[Mapping[str, str]], *, kind: ConnectorType, settings: ConnectSettings
) -> tuple[str, ...]:
    """The locks of one connector, with the config it has and the one it shall have.

    Where nobody tells whether it is a source or a sink, it takes the locks of both.
    """
    workers = settings.group_id or settings.name
    locks: set[str] = set()
    for config in configs:
        if kind is not ConnectorType.SINK:
            topic = find_offsets_topic(config, settings) or settings.name
            locks.add(connector_lock(name, offsets_topic=topic, workers=workers))
        if kind is not ConnectorType.SOURCE:
            locks.add(group_lock(find_group(name, config, settings), workers=workers))
    return tuple(sorted(locks))


def build_loggers_lock(settings: ConnectSettings) -> str:
    """The lock of the log levels of a cluster's workers."""
    return loggers_lock(settings.group_id or settings.name)


def build_lock_notes(settings: ConnectSettings, *, kinds: Sequence[ConnectorType]) -> tuple[str, ...]:
    """What the reader must know of locks whose names the context could not tell."""
    unknown = []
    if settings.group_id is None:
        unknown.append("group_id")
    if settings.offsets_topic is None and any(kind is not ConnectorType.SINK for kind in kinds):
        unknown.append("offsets_topic")
    if not unknown:
        return ()
    instead = "the locks carry that name instead, and keep out only operators who call the cluster the same"
    return (f"the context does not tell {' and '.join(unknown)} of {settings.name}: {instead}",)


class FleetLocks:
    """The lock names of one context's Connect clusters."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters

    def find_connector(
        self, cluster: str, name: str, configs: Sequence[Mapping[str, str]], *, kind: ConnectorType
    ) -> frozenset[str]:
        """Return the locks of a connector, with all the configs that it has or will have."""
        return frozenset(build_locks(name, configs, kind=kind, settings=self._clusters.settings(cluster)))

    def find_cluster(self, cluster: str) -> str:
        """Return the lock of a whole Connect cluster."""
        settings = self._clusters.settings(cluster)
        return cluster_lock(settings.group_id or settings.name)

    def find_loggers(self, cluster: str) -> str:
        """Return the lock of the log levels of a cluster's workers."""
        return build_loggers_lock(self._clusters.settings(cluster))

    def find_groups(self, groups: Sequence[str]) -> Sequence[frozenset[str]]:
        """Return the locks of consumer groups; a sink's group is one of its Connect cluster."""
        from seamark.fleet.brokers.group_owners import read_owners  # noqa: PLC0415

        workers = read_owners(self._clusters).workers
        return [frozenset({group_lock(group, workers=workers.get(group, ""))}) for group in groups]
