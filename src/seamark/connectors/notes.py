"""Notes about topics in the plans of connectors."""

from __future__ import annotations

from collections.abc import Mapping

from seamark.connect.config import OWN_OFFSETS_TOPIC
from seamark.connect.connector import Connector
from seamark.core.refs import ConnectorType


def build_topic_note(connector: Connector, config: Mapping[str, str]) -> tuple[str, ...]:
    """What it means that a source's config names another offsets topic: Connect does not take its offsets along."""
    before, after = connector.config.get(OWN_OFFSETS_TOPIC), config.get(OWN_OFFSETS_TOPIC)
    if before == after or connector.type is ConnectorType.SINK:
        return ()
    where = f"--topic {after}" if after else "--workers"
    words = f"another {OWN_OFFSETS_TOPIC}: it goes on from what that one holds, else it begins anew"
    return (f"{connector.name}: {words}. seamark offsets relocate {connector.owner} {where} takes it along",)
