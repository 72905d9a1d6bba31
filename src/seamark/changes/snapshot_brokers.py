"""Many looks at topics in one: all of them are read together and then asked about one by one."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from seamark.core.reading import Reading
from seamark.errors import NotFoundError, SeamarkError
from seamark.kafka.api import BrokerPort
from seamark.kafka.groups import GroupListing, GroupOffsets, GroupStatus
from seamark.kafka.spot import Bounds, Spot, SpotReading
from seamark.kafka.topic import TopicStatus


class SnapshotBrokers:
    """A `BrokerPort` whose topics are read once, at the first question. It is for looking only."""

    def __init__(self, port: BrokerPort) -> None:
        self._port = port
        self._lock = threading.Lock()
        self._topics: dict[str, TopicStatus] | None = None
        self._failures: Mapping[str, SeamarkError] = {}

    def read_all_topics(self) -> Reading[TopicStatus]:
        """Every topic as it was."""
        return Reading(tuple(self._find_topics().values()), failures=self._failures)

    def read_topics(self, names: Sequence[str]) -> Reading[TopicStatus]:
        """Topics by name, as they were."""
        topics = self._find_topics()
        failures = {name: self._failures.get(name) or _build_missing(name) for name in names if name not in topics}
        return Reading(tuple(topics[name] for name in names if name in topics), failures=failures)

    def read_bounds(self, spots: Iterable[Spot]) -> SpotReading[Bounds]:
        """The bounds as they are."""
        return self._port.read_bounds(spots)

    def read_groups(self, names: Sequence[str]) -> Reading[GroupStatus]:
        """The states of groups as they are."""
        return self._port.read_groups(names)

    def read_consumer_groups(self) -> Reading[GroupListing]:
        """The list of groups as it is."""
        return self._port.read_consumer_groups()

    def read_committed(
        self, groups: Mapping[str, Collection[Spot] | None], *, only_stable: bool = False
    ) -> Reading[GroupOffsets]:
        """Commits as they are."""
        return self._port.read_committed(groups, only_stable=only_stable)

    def _find_topics(self) -> dict[str, TopicStatus]:
        with self._lock:
            if self._topics is None:
                reading = self._port.read_all_topics()
                self._topics = {topic.name: topic for topic in reading}
                self._failures = reading.failures
            return self._topics

    def __getattr__(self, name: str) -> Any:
        # A snapshot that is acted on would be a fault of ours, not of the operator's.
        raise AttributeError(f"a snapshot is for looking, and has no {name}")


def _build_missing(name: str) -> SeamarkError:
    return NotFoundError(f"there is no topic {name}", hint="seamark topics list shows all of them")
