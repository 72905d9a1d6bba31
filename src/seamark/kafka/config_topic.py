"""Read the names of connectors from the config topic of a Connect cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from seamark.errors import UnreachableError
from seamark.kafka.raw_record import ScanResult
from seamark.kafka.topic_scan import Accept, TopicScan

# KafkaConfigBackingStore.CONNECTOR_PREFIX. A null value is a deleted connector.
_PREFIX = b"connector-"


class _Scan(Protocol):
    """What is read of the topic. `TopicScan` is the real one."""

    def read_newest(self, accept: Accept | None = None) -> ScanResult: ...


def read_connector_names(config: Mapping[str, str], topic: str, *, scan: _Scan | None = None) -> frozenset[str]:
    """Return the names of all connectors whose config is in the topic.

    Only committed records count, as for a worker with exactly-once support.

    Raises:
        SeamarkError: the topic can't be read to its end.
    """
    found = (scan or TopicScan(config, topic, committed=True)).read_newest(lambda key: key.startswith(_PREFIX))
    if found.held_back:
        raise UnreachableError(
            f"can't read the config topic {topic} to its end",
            cause="an open transaction hides its last records",
            hint="repeat the command when the transaction has ended",
            context={"subject": topic},
        )
    return frozenset(
        record.key.removeprefix(_PREFIX).decode(errors="replace")
        for record in found.records
        if record.key is not None and record.value is not None
    )
