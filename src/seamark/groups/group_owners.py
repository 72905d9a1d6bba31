"""Which sink each consumer group belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from seamark.connect.clusters import Clusters
from seamark.connect.config import find_group
from seamark.core.refs import ConnectorType
from seamark.errors import SeamarkError


@dataclass(frozen=True, slots=True)
class GroupOwners:
    """Sinks and Connect cluster of each group, and the Connect clusters that didn't respond."""

    sinks: Mapping[str, tuple[str, ...]]
    clusters: Mapping[str, str]
    failures: Mapping[str, SeamarkError]

    def find(self, group: str) -> str:
        """The sinks of a group as one text; "" where it is nobody's that we know."""
        return ", ".join(self.sinks.get(group, ()))


def read_owners(clusters: Clusters) -> GroupOwners:
    """Ask every Connect cluster for its sinks."""
    answers = clusters.ask(lambda client: client.read_connectors())
    sinks: dict[str, list[str]] = {}
    found_in: dict[str, str] = {}
    for name, connectors in answers.results.items():
        settings = clusters.settings(name)
        for connector in connectors:
            if connector.type is ConnectorType.SINK:
                group = find_group(connector.name, connector.config, settings)
                sinks.setdefault(group, []).append(connector.owner)
                found_in[group] = name
    return GroupOwners({group: tuple(found) for group, found in sinks.items()}, found_in, answers.failures)
