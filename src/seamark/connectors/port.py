"""The keys under which the environment of a change provides what steps of connectors need."""

from __future__ import annotations

from collections.abc import Callable

from seamark.core.ports import Port
from seamark.core.refs import ConnectorType

LEFTOVERS: Port[Callable[[str, str], tuple[str, ...]]] = Port("leftovers")
"""Tells for a Connect cluster and a connector what stays behind when the connector is deleted."""

PLUGIN_TYPES: Port[Callable[[str, str], ConnectorType]] = Port("plugin types")
"""Tells for a Connect cluster and a plugin's class whether its connectors are sources or sinks."""
