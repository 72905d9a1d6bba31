"""A Connect worker and the cluster it belongs to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker as it answers on its REST address. `error` says why it did not answer."""

    cluster: str
    url: str
    version: str = ""
    commit: str = ""
    kafka_cluster_id: str = ""
    connectors: int = 0
    tasks: int = 0
    error: str = ""

    @property
    def is_up(self) -> bool:
        """Whether it answered."""
        return not self.error


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin that a worker can load."""

    class_name: str
    type: str
    version: str = ""
