"""The plugins of a fleet: which workers have which, and where they differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from seamark.connect.clusters import Clusters
from seamark.connect.plugin import FleetPlugin, build_fleet_plugins
from seamark.connect.worker import Plugin
from seamark.core.fanout import fan_out
from seamark.core.reading import Reading
from seamark.errors import SeamarkError

if TYPE_CHECKING:
    from seamark.connect.api import ConnectPort


def read_fleet_plugins(clusters: Clusters, *, cluster: str | None = None) -> Reading[FleetPlugin]:
    """The connector plugins of every worker. One that does not answer is in `failures`, as `CLUSTER URL`."""
    names = clusters.names if cluster is None else (clusters.settings(cluster).name,)
    places = {f"{name} {url}": (name, url) for name in names for url in clusters.settings(name).urls}
    answers = fan_out({place: _bind(clusters.client(name), url) for place, (name, url) in places.items()})
    told: dict[str, dict[str, tuple[Plugin, ...]]] = {}
    for place, plugins in answers.results.items():
        name, url = places[place]
        told.setdefault(name, {})[url] = plugins
    failures: dict[str, SeamarkError] = dict(answers.failures)
    return Reading(
        items=tuple(plugin for name, by_worker in told.items() for plugin in build_fleet_plugins(name, by_worker)),
        failures=failures,
    )


def _bind(client: ConnectPort, url: str) -> Callable[[], tuple[Plugin, ...]]:
    return lambda: client.read_plugins(url)
