"""`seamark connectors plugins`."""

from __future__ import annotations

from fnmatch import fnmatchcase

import click

from seamark.cli.answer import build_answer
from seamark.cli.complete import complete_clusters, complete_plugins
from seamark.cli.options import global_options, option, pass_session
from seamark.cli.session import Session
from seamark.connect.plugin import FleetPlugin
from seamark.connectors.plugins_view import build_plugins_view


@click.command("plugins")
@click.argument("names", nargs=-1, metavar="[CLASS|GLOB]...", shell_complete=complete_plugins)
@option("--differing", is_flag=True, help="Only those that are not on every worker in the same version.")
@option("--cluster", metavar="NAME", help="Only plugins of this Connect cluster.", shell_complete=complete_clusters)
@global_options
@pass_session
def plugins(session: Session, *, names: tuple[str, ...], differing: bool, cluster: str | None) -> None:
    """List connector plugins, and the workers on which one is missing or of another version.

    CLASS is a whole class name or its last part. A connector may land on any worker of its cluster.
    """
    with session.fleet() as fleet:
        reading = fleet.connectors.plugins(cluster=cluster)
        asked = sum(len(settings.urls) for name, settings in fleet.context.connect.items() if cluster in (None, name))
    chosen = tuple(
        plugin
        for plugin in reading.items
        if (not names or fits(plugin, names)) and (not differing or not plugin.is_everywhere)
    )
    session.give(build_answer(build_plugins_view(chosen, reading), reading.failures, asked=asked))


def fits(plugin: FleetPlugin, names: tuple[str, ...]) -> bool:
    """Whether one of the names or globs is the plugin's class or its last part."""
    both = (plugin.class_name, plugin.class_name.rpartition(".")[2])
    return any(fnmatchcase(text, name) for name in names for text in both)
