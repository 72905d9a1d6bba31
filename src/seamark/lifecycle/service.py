"""Changes of a connector together with its offsets, each as a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seamark.changes.planned import Planned
    from seamark.connect.clusters import Clusters
    from seamark.connect.connector import Connector
    from seamark.connectors.plans import ConnectorPlans
    from seamark.context import Context


class Lifecycle:
    """Plans what `Connectors` is asked for where offsets go along. Nothing is changed here."""

    def __init__(self, context: Context, *, clusters: Clusters, plans: Callable[[], ConnectorPlans]) -> None:
        self._context = context
        self._clusters = clusters
        self._plans = plans

    def create(self, name: str, given: Mapping[str, Any], path: Path, *, cluster: str | None, state: str) -> Planned:
        """Plan a new connector that continues from the offsets in a file."""
        from seamark.lifecycle.create import plan_create_with_offsets  # noqa: PLC0415

        return plan_create_with_offsets(
            self._plans(),
            name,
            given,
            path,
            cluster=cluster,
            state=state,
            clusters=self._clusters,
            context=self._context,
        )

    def rename(self, connector: Connector, name: str, *, accept_loss: bool) -> Planned:
        """Plan another name for a connector."""
        from seamark.lifecycle.rename import plan_rename  # noqa: PLC0415

        return plan_rename(self._plans(), connector, name, clusters=self._clusters, accept_loss=accept_loss)
