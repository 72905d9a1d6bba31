"""`seamark plugins`."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import click

from seamark.cli.answer import Answer, build_answer
from seamark.cli.complete import complete_clusters, complete_plugins
from seamark.cli.options import global_options, option, pass_session, show_command
from seamark.cli.session import Session
from seamark.cli.tree import group
from seamark.connect.plugins import CONNECTOR_TYPES, OTHER_TYPES, FleetPlugin
from seamark.connectors.plugins import format_skeleton
from seamark.connectors.worker_views import build_plugin_view, build_plugins_view
from seamark.errors import UsageError

if TYPE_CHECKING:
    from seamark.fleet import Fleet

# `--type transform`, because configs have `transforms:`; Connect's API says transformation.
_SHORT_TYPES = {"transform": "transformation"}


@group()
def plugins() -> None:
    """Inspect connector plugins."""


@plugins.command(
    "list",
    examples=["seamark plugins list", "seamark plugins list --type transform", "seamark plugins list --mismatched"],
)
@click.argument("names", nargs=-1, metavar="[CLASS|GLOB]...", shell_complete=complete_plugins)
@option(
    "--type",
    "types",
    multiple=True,
    type=click.Choice([*CONNECTOR_TYPES, *_SHORT_TYPES, *OTHER_TYPES], case_sensitive=False),
    metavar="TYPE",
    help="source, sink, transform, predicate, converter or header_converter; repeatable.",
)
@option("--mismatched", is_flag=True, help="Only plugins that are missing or differ on a worker.")
@option("--cluster", metavar="NAME", help="Only plugins of this Connect cluster.", shell_complete=complete_clusters)
@show_command
def list_plugins(
    fleet: Fleet, *, names: tuple[str, ...], types: tuple[str, ...], mismatched: bool, cluster: str | None
) -> Answer:
    """List plugins and their versions.

    CLASS is a class name or its last part. Workers on which a plugin is missing or has another version are listed,
    because a connector can run on any worker of its Connect cluster. Connect lists plugins that are not connectors
    since version 3.2.
    """
    reading = fleet.connectors.plugins(cluster=cluster, types=[_SHORT_TYPES.get(kind, kind) for kind in types])
    asked = sum(len(settings.urls) for name, settings in fleet.context.connect.items() if cluster in (None, name))
    if not reading.items:
        asked = len(reading.failures)
    chosen = tuple(
        plugin
        for plugin in reading.items
        if (not names or fits(plugin, names)) and (not mismatched or not plugin.is_everywhere)
    )
    return build_answer(build_plugins_view(chosen, reading), reading.failures, asked=asked)


@plugins.command(
    "show", examples=["seamark plugins show JdbcSource", "seamark plugins show JdbcSource --skeleton > logs.yaml"]
)
@click.argument("name", metavar="CLASS", shell_complete=complete_plugins)
@option("--skeleton", is_flag=True, help="Print a spec file with all keys instead.")
@option("--cluster", metavar="NAME", help="The plugin of this Connect cluster.", shell_complete=complete_clusters)
@global_options
@pass_session
def show_plugin(session: Session, *, name: str, skeleton: bool, cluster: str | None) -> None:
    """Show the config keys of a plugin.

    CLASS is a class name, its last part, or Connect's alias of it. The keys are those that the plugin defines, with
    Connect's own for every connector; Connect reports them since version 3.2. A skeleton has a placeholder for each
    required key, and all other keys as comments with their defaults.
    """
    if skeleton and not session.output.is_text:
        raise UsageError("--skeleton prints a spec file", hint="omit --output")
    with session.fleet() as fleet:
        found = fleet.connectors.plugin(name, cluster=cluster)
        with_cluster = len(fleet.context.connect) > 1
    if skeleton:
        session.out.write(format_skeleton(found, with_cluster=with_cluster))
    else:
        session.show(Answer(build_plugin_view(found)))


def fits(plugin: FleetPlugin, names: tuple[str, ...]) -> bool:
    """Return whether one of the names or globs matches the plugin's class or its last part."""
    both = (plugin.class_name, plugin.class_name.rpartition(".")[2])
    return any(fnmatchcase(text, name) for name in names for text in both)
