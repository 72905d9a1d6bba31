"""The connectors that a spec declares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from seamark.core.files import Place


@dataclass(frozen=True, slots=True)
class DesiredConnector:
    """A connector that should be.

    `config` is what Connect shall get, as texts, without `name`; our own `secret://` references stay unread. `cluster`
    is None where the context has but one. `state` is how it begins where it is new: RUNNING, PAUSED, STOPPED, or ""
    for Connect's own way. The state of a connector that is there is never touched by it.
    """

    name: str
    config: Mapping[str, str] = field(repr=False)
    place: Place
    cluster: str | None = None
    state: str = ""

    @property
    def owner(self) -> str:
        """CLUSTER/NAME, or NAME where the cluster is not said."""
        return f"{self.cluster}/{self.name}" if self.cluster else self.name
