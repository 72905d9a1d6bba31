"""The config keys of one plugin, and a spec file that starts from them."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import partial

from seamark.connect.clusters import Clusters
from seamark.connect.model import ConfigKey
from seamark.connect.plugins import CONNECTOR_TYPES, FleetPlugin, PluginDefinition
from seamark.connectors.workers import read_fleet_plugins
from seamark.core.readings import Reading, fan_out
from seamark.errors import NotFoundError, SeamarkError, UsageError
from seamark.report.text import escape

PLACEHOLDER = "CHANGE_ME"
"""What a skeleton has for a required value. No plugin takes it for a number, an address or a class."""

_WIDTH = 110
# The name is the entry's own, and the class is written first.
_WRITTEN = frozenset({"name", "connector.class"})
# A plain scalar in every reader of YAML, and the same text again in a spec file.
_PLAIN = re.compile(r"-?\d+|true|false|[A-Za-z][A-Za-z0-9_./$-]*")
_RESERVED = frozenset({"null", "yes", "no", "on", "off", "y", "n"})


def read_plugin(clusters: Clusters, name: str, *, cluster: str | None = None) -> PluginDefinition:
    """Read the config keys of a plugin, by its class, the last part of it, or its alias.

    The keys are those of `GET /connector-plugins/CLASS/config`. `validate` would report the same keys (compared for
    every connector of 4.3.1 and 3.5.2), but needs a config, and plugins connect to what a config names.

    Raises:
        NotFoundError: No worker has the plugin.
        UsageError: Several plugins or Connect clusters have the name.
        UnsupportedError: A worker is older than Connect 3.2.
    """
    reading = read_fleet_plugins(clusters, cluster=cluster)
    found = _find_plugin(name, reading)
    keys = clusters.client(found[0].cluster).read_config_keys(found[0].class_name)
    types = tuple(dict.fromkeys(plugin.type for plugin in found))
    return PluginDefinition(found[0].cluster, found[0].class_name, types, found[-1].version, keys)


def read_connector_plugins(clusters: Clusters, *, cluster: str | None = None) -> tuple[PluginDefinition, ...]:
    """Read the config keys of every connector plugin. A class that several Connect clusters have is read once.

    Raises:
        UnsupportedError: A worker is older than Connect 3.2.
        SeamarkError: A worker did not respond; a part would look like all of them.
    """
    reading = read_fleet_plugins(clusters, cluster=cluster, types=CONNECTOR_TYPES)
    for error in reading.failures.values():
        raise error
    plugins = {plugin.class_name: plugin for plugin in reversed(reading.items)}
    answers = fan_out(
        {name: partial(clusters.client(plugin.cluster).read_config_keys, name) for name, plugin in plugins.items()}
    )
    for error in answers.failures.values():
        raise error
    return tuple(
        PluginDefinition(plugin.cluster, name, (plugin.type,), plugin.version, answers.results[name])
        for name, plugin in sorted(plugins.items())
    )


def _find_plugin(name: str, reading: Reading[FleetPlugin]) -> list[FleetPlugin]:
    found = [plugin for plugin in reading.items if plugin.class_name == name]
    named = {(plugin.cluster, plugin.class_name) for plugin in reading.items if name in plugin.names}
    # The alias of a class depends on its type; a class found by one of them is meant with all its types.
    found = found or [plugin for plugin in reading.items if (plugin.cluster, plugin.class_name) in named]
    if not found:
        raise _build_absence(name, reading)
    classes = list(dict.fromkeys(plugin.class_name for plugin in found))
    if len(classes) > 1:
        raise UsageError(
            f"plugin {name} is ambiguous", cause=", ".join(classes), hint="pass one of these classes, in quotes"
        )
    clusters = list(dict.fromkeys(plugin.cluster for plugin in found))
    if len(clusters) > 1:
        raise UsageError(
            f"plugin {name} is in {len(clusters)} Connect clusters",
            cause=", ".join(clusters),
            hint=f"choose one of them: --cluster {clusters[0]}",
        )
    return found


def _build_absence(name: str, reading: Reading[FleetPlugin]) -> SeamarkError:
    if reading.failures and not reading.items:
        return next(iter(reading.failures.values()))
    names = {alias: plugin.class_name for plugin in reading.items for alias in plugin.names}
    close = get_close_matches(name, names, n=1)
    silent = f"these workers did not respond: {', '.join(reading.failures)}" if reading.failures else ""
    return NotFoundError(
        f"plugin {name} does not exist",
        cause=silent,
        hint=f"run: seamark plugins show {names[close[0]]}" if close else "list the plugins: seamark plugins list",
        context={"plugin": name},
    )


def format_skeleton(plugin: PluginDefinition, *, with_cluster: bool) -> str:
    """Return a spec file for the plugin: required keys with placeholders, optional keys as comments.

    `with_cluster` names the Connect cluster, which a context with several of them requires.
    """
    kind = ", ".join(plugin.types)
    lines = [
        f"# {plugin.class_name} {plugin.version}".rstrip() + f" ({kind}) in Connect cluster {plugin.cluster}.",
        f"# Replace {PLACEHOLDER}; remove the # before the optional keys that you need.",
        "connectors:",
        f"  - name: {PLACEHOLDER}",
        *([f"    cluster: {_format_scalar(plugin.cluster)}"] if with_cluster else []),
        "    config:",
        *(f"      {line}" if line else "" for line in _build_config(plugin)),
    ]
    # What plugins say of themselves may contain anything; a newline would end a comment.
    return "".join(f"{escape(line)}\n" for line in lines)


def _build_config(plugin: PluginDefinition) -> Iterator[str]:
    if plugin.is_connector:
        yield f"connector.class: {_format_scalar(plugin.class_name)}"
        yield from _build_keys([key for key in plugin.keys if key.name not in _WRITTEN], prefix="")
        return
    prefix, selection = _choose_prefix(plugin)
    yield f"connector.class: {PLACEHOLDER}"
    yield from selection
    # `converter.type` is set by Connect.
    yield from _build_keys([key for key in plugin.keys if key.name != "converter.type"], prefix=prefix)


def _choose_prefix(plugin: PluginDefinition) -> tuple[str, tuple[str, ...]]:
    """Return how a connector's config refers to the plugin: the prefix of its keys, and the lines that select it."""
    class_name = _format_scalar(plugin.class_name)
    kind = plugin.types[0]
    if kind in ("transformation", "predicate"):
        noun = "transforms" if kind == "transformation" else "predicates"
        simple = plugin.class_name.rpartition(".")[2].partition("$")[0]
        alias = simple[:1].lower() + simple[1:]
        return f"{noun}.{alias}.", (f"{noun}: {alias}", f"{noun}.{alias}.type: {class_name}")
    key = "header.converter" if kind == "header_converter" else "value.converter"
    return f"{key}.", (f"{key}: {class_name}",)


def _build_keys(keys: Sequence[ConfigKey], *, prefix: str) -> Iterator[str]:
    for key in sorted(keys, key=lambda key: not key.is_required):
        yield ""
        for line in _build_comment(key):
            yield f"# {line}"
        mark = "" if key.is_required else "#"
        yield f"{mark}{_format_scalar(prefix + key.name)}: {_format_value(key)}"


def _build_comment(key: ConfigKey) -> list[str]:
    facts = [key.type, "required" if key.is_required else "", key.importance and f"importance {key.importance.lower()}"]
    said = " ".join(key.documentation.split())
    return textwrap.wrap(f"{said} ({', '.join(filter(None, facts))})".lstrip(), _WIDTH, break_on_hyphens=False)


def _format_value(key: ConfigKey) -> str:
    if key.is_password:
        return f"secret://env/{re.sub(r'[^A-Z0-9]+', '_', key.name.upper())}"
    if key.default is None or (key.is_required and not key.default):
        return PLACEHOLDER
    return _format_scalar(key.default)


def _format_scalar(text: str) -> str:
    """Return a text as a YAML scalar that a spec file reads as this text."""
    if _PLAIN.fullmatch(text) and text.lower() not in _RESERVED:
        return text
    # Spec files replace ${{ … }}; one dollar more makes it a text.
    return json.dumps(re.sub(r"(\$+)\{\{", r"$\1{{", text), ensure_ascii=False)
