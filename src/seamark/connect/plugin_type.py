"""Whether a connector that is not there yet will be a source or a sink."""

from __future__ import annotations

from collections.abc import Iterable

from seamark.connect.worker import Plugin
from seamark.core.refs import ConnectorType


def find_type(plugins: Iterable[Plugin], plugin_class: str) -> ConnectorType:
    """The type of the plugin that Connect would take for this `connector.class`; UNKNOWN where none fits.

    Connect takes the whole name of a class, its last part, and that without "Connector" at its end.
    """
    found = {ConnectorType.of(plugin.type) for plugin in plugins if plugin_class in _names(plugin.class_name)}
    found.discard(ConnectorType.UNKNOWN)
    return found.pop() if len(found) == 1 else ConnectorType.UNKNOWN


def _names(class_name: str) -> tuple[str, str, str]:
    simple = class_name.rpartition(".")[2]
    return class_name, simple, simple.removesuffix("Connector")


def find_class(plugins: Iterable[Plugin], plugin_class: str) -> str:
    """The whole name of the class that Connect would take for this `connector.class`; itself where none fits."""
    found = {plugin.class_name for plugin in plugins if plugin_class in _names(plugin.class_name)}
    return found.pop() if len(found) == 1 else plugin_class
