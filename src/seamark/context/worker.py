"""What a Connect worker's properties file tells that its REST API does not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from seamark.context.java_properties import Property
from seamark.context.kafka_keys import WORKER_PIECES
from seamark.context.origin import Origin, OriginKind, Trust
from seamark.context.properties import read_properties
from seamark.context.provider import ConfigProviders
from seamark.context.search import Surroundings
from seamark.context.value import Value

# Our key of a Connect cluster, and the worker's key that fills it.
WORKER_KEYS = MappingProxyType(
    {
        "group_id": "group.id",
        "offsets_topic": "offset.storage.topic",
        "config_topic": "config.storage.topic",
        "status_topic": "status.storage.topic",
        "exactly_once": "exactly.once.source.support",
        # Without it every sink has its own group; with it, all sinks of the worker share this one.
        "consumer_group_id": "consumer.group.id",
        # Only a standalone worker has it.
        "offsets_file": "offset.storage.file.filename",
    }
)
_ALGORITHM = "ssl.endpoint.identification.algorithm"


@dataclass(frozen=True, slots=True)
class WorkerFile:
    """A worker's properties file, its references still unresolved. `trust` is that of the place that names the file."""

    path: Path
    place: str
    properties: Mapping[str, Property] = field(repr=False)
    providers: ConfigProviders = field(repr=False)
    trust: Trust = Trust.USER

    def find(self, key: str, *, shown_as: str) -> Value | None:
        """The value of one of the worker's keys; `shown_as` is its name in the context."""
        found = self.properties.get(key)
        if found is None:
            return None
        return Value(shown_as, found.value, self._at(found), folder=self.path.parent, references=self.providers)

    def find_cluster_values(self, cluster: str) -> dict[str, Value]:
        """What it says of the Connect cluster, by our keys."""
        found = {ours: self.find(key, shown_as=f"connect.{cluster}.{ours}") for ours, key in WORKER_KEYS.items()}
        return {ours: value for ours, value in found.items() if value is not None and value.raw.strip()}

    def find_kafka_values(self, given: Iterable[str]) -> dict[str, Value]:
        """The Kafka settings that the context does not give itself, piece by piece."""
        taken = list(given)
        wanted = [piece for piece in WORKER_PIECES if not piece.is_given_by(taken)]
        found = {key: self.find(key, shown_as=f"kafka.{key}") for piece in wanted for key in sorted(piece.keys)}
        # An empty algorithm is Java's way to switch the check of host names off; else empty is nothing.
        return {key: value for key, value in found.items() if value is not None and (value.raw or key == _ALGORITHM)}

    def _at(self, found: Property) -> Origin:
        return Origin(OriginKind.WORKER, self.place, found.line, path=self.path, trust=self.trust)


def read_worker_file(path: Path, surroundings: Surroundings, *, trust: Trust = Trust.USER) -> WorkerFile:
    """Read a worker's file. References in its values are resolved when a value is needed.

    `trust` is that of the place that names the file. References of a file that a project names are never resolved.
    """
    place = surroundings.show(path)
    properties = read_properties(path, origin=Origin(OriginKind.WORKER, place, path=path))
    providers = ConfigProviders.from_properties(properties, surroundings.environ, is_trusted=trust is not Trust.PROJECT)
    return WorkerFile(path, place, properties, providers, trust)
