"""The topics that a spec declares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from seamark.core.files import Place


@dataclass(frozen=True, slots=True)
class DesiredTopic:
    """A topic that should be. What is None is left to the broker, or as it is."""

    name: str
    place: Place
    partitions: int | None = None
    replication: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)
