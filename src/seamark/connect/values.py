"""What Connect's REST API tells that is of no use outside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from seamark.connect.loggers import LoggerLevel

__all__ = ["LoggerLevel", "OffsetsChange", "Validation", "WorkerHealth"]


@dataclass(frozen=True, slots=True)
class Validation:
    """What a plugin says of a config. `errors` holds the keys that have any, `secret` those of the type PASSWORD."""

    plugin: str
    error_count: int
    errors: Mapping[str, tuple[str, ...]]
    secret: frozenset[str] = frozenset()

    @property
    def is_valid(self) -> bool:
        """Whether Connect would accept the config."""
        return self.error_count == 0


@dataclass(frozen=True, slots=True)
class OffsetsChange:
    """The answer to a change of offsets that Connect carried out.

    `may_be_external` says that the plugin did not look at the offsets: they were written as sent, wrong keys too, and
    a plugin that keeps its position elsewhere has not moved.
    """

    message: str
    may_be_external: bool


@dataclass(frozen=True, slots=True)
class WorkerHealth:
    """What `GET /health` says: healthy, starting or unhealthy."""

    status: str
    message: str

    @property
    def is_healthy(self) -> bool:
        """Whether the worker has started and its herder answers."""
        return self.status == "healthy"
