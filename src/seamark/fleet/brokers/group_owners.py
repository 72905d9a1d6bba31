"""Which sink each consumer group belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from seamark.errors import SeamarkError
from seamark.fleet.clusters import Clusters
from seamark.fleet.lock_names import find_group
from seamark.model.connector import ConnectorType


@dataclass(frozen=True, slots=True)
class GroupOwners:
    """Sinks by group, each CLUSTER/NAME, and the clusters that did not answer."""

    sinks: Mapping[str, tuple[str, ...]]
    workers: Mapping[str, str]
    failures: Mapping[str, SeamarkError]

    def find(self, group: str) -> str:
        """The sinks of a group as one text; "" where it is nobody's that we know."""
        return ", ".join(self.sinks.get(group, ()))


def read_owners(clusters: Clusters) -> GroupOwners:
    """Ask every Connect cluster for its sinks. `workers` is the workers' group of each, as locks name it."""
    answers = clusters.ask(lambda client: client.read_connectors())
    sinks: dict[str, list[str]] = {}
    workers: dict[str, str] = {}
    for name, connectors in answers.results.items():
        settings = clusters.settings(name)
        for connector in connectors:
            if connector.type is ConnectorType.SINK:
                group = find_group(connector.name, connector.config, settings)
                sinks.setdefault(group, []).append(connector.owner)
                workers[group] = settings.group_id or settings.name
    return GroupOwners({group: tuple(found) for group, found in sinks.items()}, workers, answers.failures)
