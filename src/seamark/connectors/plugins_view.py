"""Plugins: the listing."""

from __future__ import annotations

from collections.abc import Sequence

from seamark.connect.plugin import FleetPlugin
from seamark.core.reading import Reading
from seamark.report.error import build_failures
from seamark.report.listing import Column, Listing, View
from seamark.report.text import Style


def _format_plugin_location(plugin: FleetPlugin) -> str:
    total = len(plugin.workers) + len(plugin.missing) + len(plugin.others)
    if plugin.is_everywhere:
        return f"✓ all {total}" if total > 1 else "✓ 1"
    return f"▲ {len(plugin.workers)} of {total}"


def _trouble(plugin: FleetPlugin) -> str:
    parts = [f"missing on {', '.join(plugin.missing)}"] if plugin.missing else []
    parts += [f"{versions} on {url}" for url, versions in plugin.others]
    return "; ".join(parts) or "-"


PLUGIN_LISTING: Listing[FleetPlugin] = Listing(
    kind="PluginList",
    noun="plugin",
    name=lambda plugin: plugin.class_name,
    columns=(
        Column("cluster", "CLUSTER", lambda plugin: plugin.cluster),
        Column("class", "CLASS", lambda plugin: plugin.class_name),
        Column("type", "TYPE", lambda plugin: plugin.type),
        Column("version", "VERSION", lambda plugin: plugin.version),
        Column(
            "workers",
            "WORKERS",
            lambda plugin: list(plugin.workers),
            text=_format_plugin_location,
            style=lambda plugin: Style.PLAIN if plugin.is_everywhere else Style.WARN,
        ),
        Column("missing", "", lambda plugin: list(plugin.missing)),
        Column("other_versions", "", lambda plugin: dict(plugin.others)),
        Column("trouble", "TROUBLE", lambda plugin: "" if plugin.is_everywhere else _trouble(plugin), text=_trouble),
    ),
)


def build_plugins_view(plugins: Sequence[FleetPlugin], reading: Reading[FleetPlugin]) -> View[FleetPlugin]:
    """Plugins, and the workers that did not answer."""
    return View(
        PLUGIN_LISTING,
        plugins,
        body=lambda: {"items": PLUGIN_LISTING.build_items(plugins), "failures": build_failures(reading.failures)},
        empty="no plugins",
    )
