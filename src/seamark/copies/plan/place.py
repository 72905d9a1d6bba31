"""One end of copies: a context with its brokers, its control topic and its journal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seamark.changes.planned import Planned
    from seamark.changes.planner import Planner
    from seamark.changes.result import ChangeResult
    from seamark.context import Context
    from seamark.copies.plan.ports import CopyLogs
    from seamark.kafka.api import BrokersPort


@dataclass(frozen=True, slots=True)
class CopyPlace:
    """Where one of the two topics is. What is kept of a copy is kept with its target."""

    context: Context
    open_kafka: Callable[[], BrokersPort]
    open_logs: Callable[[], CopyLogs]
    planner: Callable[[], Planner]
    apply: Callable[[Planned], ChangeResult]

    @property
    def kafka(self) -> BrokersPort:
        """Its brokers."""
        return self.open_kafka()

    @property
    def logs(self) -> CopyLogs:
        """Its logs."""
        return self.open_logs()


@dataclass(frozen=True, slots=True)
class CopyRoute:
    """From where to where: often within one place."""

    source: CopyPlace
    target: CopyPlace

    @property
    def is_far(self) -> bool:
        """Whether it leads from one cluster to another."""
        return self.source is not self.target
