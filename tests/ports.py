"""Worlds in memory: a port is the method of its name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class MethodPorts:
    """An `Environment` whose capabilities are its methods."""

    def use(self, port: Any) -> Any:
        return getattr(self, port.name)

    def find_secret_keys(self, cluster: str, config: Any) -> frozenset[str]:
        """Plugins of these worlds have no PASSWORD key."""
        return frozenset()


class PortWorld(MethodPorts, SimpleNamespace):
    """An `Environment` of the functions that it is given, each by the name of its port."""
