"""Sinks that would read the target of a copy while it is filled, as they find their topics by a pattern."""

from __future__ import annotations

from seamark.connect.clusters import Clusters
from seamark.connect.switching import is_read_by_pattern
from seamark.core.refs import ConnectorType


def refuse_strangers(clusters: Clusters, target: str) -> tuple[str, ...]:
    """Why a name is no good for a target: one sentence for each sink that would read it at once, all of it."""
    answers = clusters.ask(lambda client: client.read_connectors())
    return tuple(
        f"connector/{connector.owner} finds its topics by {connector.config['topics.regex']!r}, and would read "
        f"{target} while it is filled: give it another name with --to"
        for connectors in answers.results.values()
        for connector in connectors
        if connector.type is not ConnectorType.SOURCE and is_read_by_pattern(connector.config, target)
    )
