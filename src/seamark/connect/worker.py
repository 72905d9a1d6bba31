"""A Connect worker and the cluster it belongs to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker as it answers on its REST address. `error` says why it did not answer.

    `connectors` and `tasks` are what runs on it; None where that can't be told, because no state
    names a worker at this address (a load balancer, or another advertised name).
    `clock_skew_seconds` is how far its clock is ahead of ours (negative: behind), by the Date
    header of its answer; None where it sent none.
    """

    cluster: str
    url: str
    version: str = ""
    commit: str = ""
    kafka_cluster_id: str = ""
    connectors: int | None = None
    tasks: int | None = None
    error: str = ""
    clock_skew_seconds: float | None = None

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
