"""Plugins: every worker must be able to run every connector, because any may get it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from seamark.connect.worker import Plugin
from seamark.core.finding import Finding, Severity
from seamark.doctor.check import Check, build_unexamined
from seamark.doctor.evidence import ClusterEvidence, Evidence
from seamark.errors import SeamarkError

_PLUGINS = "connect.plugins"


def examine_plugins(evidence: Evidence) -> Iterator[Finding]:
    """connect.plugins: all workers have the same plugins, and those that the connectors need."""
    for cluster in evidence.clusters:
        told = {url: found for url, found in cluster.plugins.items() if not isinstance(found, SeamarkError)}
        for url, found in cluster.plugins.items():
            if isinstance(found, SeamarkError):
                yield build_unexamined(_PLUGINS, subject=f"{cluster.name} {url}", error=found)
        if not told:
            if not cluster.plugins:
                words = "not examined: no worker answered"
                yield Finding(_PLUGINS, Severity.WARNING, cluster.name, words, "see connect.reachable")
            continue
        faults = (*_find_missing(cluster, told), *_find_different(cluster.name, told), *_find_unrunnable(cluster, told))
        yield from faults
        if not faults:
            count = len(next(iter(told.values())))
            words = (
                f"{len(told)} workers have the same {count} connector plugins"
                if len(told) > 1
                else f"{count} connector plugins"
            )
            yield Finding(_PLUGINS, Severity.OK, cluster.name, words)


def is_class_of(configured: str, class_name: str) -> bool:
    """Whether `connector.class` means this plugin: by its full name, its last part, or that without "Connector"."""
    short = class_name.rpartition(".")[2]
    return configured in {class_name, short, short.removesuffix("Connector")}


def _find_missing(cluster: ClusterEvidence, told: Mapping[str, tuple[Plugin, ...]]) -> Iterator[Finding]:
    by_url = {url: {plugin.class_name for plugin in plugins} for url, plugins in told.items()}
    everything = sorted(set().union(*by_url.values()))
    for class_name in everything:
        lacking = [url for url, classes in by_url.items() if class_name not in classes]
        if not lacking:
            continue
        users = _list_users(cluster, class_name)
        severity = Severity.ERROR if users else Severity.WARNING
        words = f"{class_name} is missing on {', '.join(lacking)}"
        if users:
            words += f"; {_name_some(users)} may land there and fail"
        yield Finding(_PLUGINS, severity, cluster.name, words, "install the plugin there and restart the worker")


def _find_different(cluster: str, told: Mapping[str, tuple[Plugin, ...]]) -> Iterator[Finding]:
    versions: dict[str, dict[str, frozenset[str]]] = {}
    for url, plugins in told.items():
        for plugin in plugins:
            # From 4.1 on a worker may have several versions of one plugin.
            at = versions.setdefault(plugin.class_name, {})
            at[url] = at.get(url, frozenset()) | {plugin.version}
    for class_name, at in sorted(versions.items()):
        if len(set(at.values())) > 1:
            words = ", ".join(f"{'+'.join(sorted(found))} on {url}" for url, found in at.items())
            fix = "install the same version on every worker and restart them one by one"
            yield Finding(_PLUGINS, Severity.WARNING, cluster, f"{class_name} differs: {words}", fix)


def _find_unrunnable(cluster: ClusterEvidence, told: Mapping[str, tuple[Plugin, ...]]) -> Iterator[Finding]:
    """Connectors whose plugin is on no worker at all."""
    if isinstance(cluster.connectors, SeamarkError):
        yield build_unexamined(_PLUGINS, subject=cluster.name, error=cluster.connectors)
        return
    known = {plugin.class_name for plugins in told.values() for plugin in plugins}
    lost: dict[str, list[str]] = {}
    for connector in cluster.connectors:
        if connector.plugin and not any(is_class_of(connector.plugin, class_name) for class_name in known):
            lost.setdefault(connector.plugin, []).append(connector.name)
    for class_name, users in sorted(lost.items()):
        words = f"{class_name} is on no worker; {_name_some(users)} can't run"
        yield Finding(_PLUGINS, Severity.ERROR, cluster.name, words, "install the plugin on every worker")


def _list_users(cluster: ClusterEvidence, class_name: str) -> list[str]:
    if isinstance(cluster.connectors, SeamarkError):
        return []
    return [found.name for found in cluster.connectors if found.plugin and is_class_of(found.plugin, class_name)]


def _name_some(names: list[str]) -> str:
    shown = ", ".join(sorted(names)[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


PLUGIN_CHECKS = (Check(_PLUGINS, examine_plugins),)
