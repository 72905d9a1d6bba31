"""Which plugins the workers of a cluster have, and where they differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from seamark.connect.model import ConfigKey, Plugin
from seamark.core.refs import ConnectorType


@dataclass(frozen=True, slots=True)
class FleetPlugin:
    """One version of a plugin in one Connect cluster.

    `workers` have it. `missing` have no version of it, so a connector that lands there fails. `others` have it in the
    versions named. A worker that did not answer is in none of them.
    """

    cluster: str
    class_name: str
    type: str
    version: str
    workers: tuple[str, ...]
    missing: tuple[str, ...] = ()
    others: tuple[tuple[str, str], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names that select it: its class, the last part, the alias, and the class around a nested class."""
        simple = self.class_name.rpartition(".")[2]
        return *_list_aliases(self.class_name, self.type), simple.partition("$")[0]

    @property
    def is_everywhere(self) -> bool:
        """Whether every worker that answered has it in this version."""
        return not self.missing and not self.others


@dataclass(frozen=True, slots=True)
class PluginDefinition:
    """A plugin with its config keys. A class that converts values and headers has two types."""

    cluster: str
    class_name: str
    types: tuple[str, ...]
    version: str
    keys: tuple[ConfigKey, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names that Connect takes for it."""
        return tuple(dict.fromkeys(name for kind in self.types for name in _list_aliases(self.class_name, kind)))

    @property
    def is_connector(self) -> bool:
        """Whether connectors can have it as `connector.class`."""
        return any(kind in CONNECTOR_TYPES for kind in self.types)


CONNECTOR_TYPES = ("source", "sink")
# Connect's alias of a class is its last part without this ending (`PluginUtils.prunedName`).
_ENDINGS = {
    "source": "Connector",
    "sink": "Connector",
    "transformation": "Transformation",
    "predicate": "Predicate",
    "converter": "Converter",
    "header_converter": "HeaderConverter",
}


def _list_aliases(class_name: str, kind: str) -> tuple[str, str, str]:
    simple = class_name.rpartition(".")[2]
    return class_name, simple, simple.removesuffix(_ENDINGS.get(kind, "")) or simple


# The types of other plugins, as KIP-769 names them, in the order of listings.
OTHER_TYPES = ("transformation", "predicate", "converter", "header_converter")


def build_fleet_plugins(cluster: str, told: Mapping[str, Iterable[Plugin]]) -> tuple[FleetPlugin, ...]:
    """The plugins of a cluster by what each worker told: connectors first, sorted by class and version.

    A worker older than 3.2 lists connectors only. Then other types of its cluster can't be compared, and are left out.
    """
    by_worker = {url: tuple(plugins) for url, plugins in told.items()}
    if not all(lists_all_types(plugins) for plugins in by_worker.values()):
        by_worker = {
            url: tuple(plugin for plugin in plugins if plugin.type not in OTHER_TYPES)
            for url, plugins in by_worker.items()
        }
    known = {(found.type, found.class_name, found.version) for one in by_worker.values() for found in one}
    ordered = sorted(known, key=lambda key: (_ORDER.get(key[0], 0), key[1], key[2]))
    return tuple(_build_plugin(cluster, by_worker, *key) for key in ordered)


_ORDER = {kind: place for place, kind in enumerate(OTHER_TYPES, start=1)}


def lists_all_types(plugins: Iterable[Plugin]) -> bool:
    """Whether a worker's answer is about all types of plugins. Every Connect has converters of its own."""
    return any(plugin.type in OTHER_TYPES for plugin in plugins)


def _build_plugin(
    cluster: str, by_worker: Mapping[str, tuple[Plugin, ...]], kind: str, class_name: str, version: str
) -> FleetPlugin:
    # From 4.1 on a worker may have several versions of one plugin, and a class that converts keys, values and headers
    # is listed as converter and as header_converter.
    versions = {url: _list_versions(plugins, class_name, kind) for url, plugins in by_worker.items()}
    return FleetPlugin(
        cluster,
        class_name=class_name,
        type=kind,
        version=version,
        workers=tuple(url for url, found in versions.items() if version in found),
        missing=tuple(url for url, found in versions.items() if not found),
        others=tuple((url, "+".join(found)) for url, found in versions.items() if found and version not in found),
    )


def _list_versions(plugins: Iterable[Plugin], class_name: str, kind: str) -> list[str]:
    return sorted({plugin.version for plugin in plugins if (plugin.class_name, plugin.type) == (class_name, kind)})


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
