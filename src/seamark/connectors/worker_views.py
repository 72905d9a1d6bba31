"""Views of plugins, loggers and workers."""

from __future__ import annotations

from collections.abc import Sequence

from seamark.connect.loggers import FleetLogger
from seamark.connect.model import ConfigKey, Worker
from seamark.connect.plugins import FleetPlugin, PluginDefinition
from seamark.core.readings import Reading
from seamark.core.secrets import MASK
from seamark.report.listing import Column, Listing, View
from seamark.report.terminal import build_failures
from seamark.report.text import Line, Span, Style, line


def _format_logger_location(logger: FleetLogger) -> str:
    if not logger.is_everywhere:
        return ", ".join(logger.workers)
    return f"all {logger.asked}" if logger.asked > 1 else "1"


LOGGER_LISTING: Listing[FleetLogger] = Listing(
    kind="LoggerList",
    noun="logger",
    name=lambda logger: logger.name,
    columns=(
        Column("cluster", "CLUSTER", lambda logger: logger.cluster),
        Column("name", "LOGGER", lambda logger: logger.name),
        Column("level", "LEVEL", lambda logger: logger.level),
        Column("workers", "WORKERS", lambda logger: list(logger.workers), text=_format_logger_location),
    ),
)


def build_loggers_view(loggers: Sequence[FleetLogger], reading: Reading[FleetLogger]) -> View[FleetLogger]:
    """Build the view of loggers, and of the workers that did not respond."""
    return View(
        LOGGER_LISTING,
        loggers,
        body=lambda: {"items": LOGGER_LISTING.build_items(loggers), "failures": build_failures(reading.failures)},
        empty="no loggers",
    )


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
        Column("trouble", "MISMATCH", lambda plugin: "" if plugin.is_everywhere else _trouble(plugin), text=_trouble),
    ),
)


def build_plugins_view(plugins: Sequence[FleetPlugin], reading: Reading[FleetPlugin]) -> View[FleetPlugin]:
    """Build the view of plugins, and of the workers that did not respond."""
    return View(
        PLUGIN_LISTING,
        plugins,
        body=lambda: {"items": PLUGIN_LISTING.build_items(plugins), "failures": build_failures(reading.failures)},
        empty="no plugins",
    )


# A longer text would wrap the table on most terminals; `-o wide` and JSON have all of it.
_SUMMARY_LENGTH = 60


def _build_default(key: ConfigKey) -> str | None:
    # Connect hides such values; a plugin that reports one in its documentation is out of reach.
    return MASK if key.is_password and key.default else key.default


def _format_default(key: ConfigKey) -> str:
    if key.is_required and key.default is None:
        return "required"
    default = _build_default(key)
    return "-" if default is None else default or '""'


def _join_lines(key: ConfigKey) -> str:
    return " ".join(key.documentation.split()) or "-"


def _build_summary(key: ConfigKey) -> str:
    text = _join_lines(key)
    return text if len(text) <= _SUMMARY_LENGTH else f"{text[:_SUMMARY_LENGTH].rstrip()} …"


KEY_LISTING: Listing[ConfigKey] = Listing(
    kind="PluginKeyList",
    noun="key",
    name=lambda key: key.name,
    columns=(
        Column("name", "KEY", lambda key: key.name),
        Column("type", "TYPE", lambda key: key.type),
        Column("required", "", lambda key: key.is_required),
        Column("default", "DEFAULT", _build_default, text=_format_default),
        Column("importance", "IMPORTANCE", lambda key: key.importance),
        Column("group", "GROUP", lambda key: key.group),
        Column(
            "documentation",
            "DOCUMENTATION",
            lambda key: key.documentation,
            text=_build_summary,
            long=_join_lines,
        ),
    ),
)


def build_plugin_view(plugin: PluginDefinition) -> View[ConfigKey]:
    """Build the view of one plugin with its config keys."""
    types = ", ".join(plugin.types)
    head: list[Line] = [
        line(Span(plugin.class_name, Style.STRONG), f" · {plugin.cluster} · {types} · {plugin.version or 'no version'}")
    ]
    return View(
        KEY_LISTING,
        plugin.keys,
        kind="Plugin",
        body=lambda: {
            "cluster": plugin.cluster,
            "class": plugin.class_name,
            "types": list(plugin.types),
            "version": plugin.version,
            "keys": KEY_LISTING.build_items(plugin.keys),
        },
        lines=lambda screen: head + KEY_LISTING.build_lines(plugin.keys, screen),
    )


def _skew(worker: Worker) -> str:
    if worker.clock_skew_seconds is None:
        return "-"
    return f"{worker.clock_skew_seconds:+.1f} s"


WORKER_LISTING: Listing[Worker] = Listing(
    kind="WorkerList",
    noun="worker",
    name=lambda worker: worker.url,
    columns=(
        Column("cluster", "CLUSTER", lambda worker: worker.cluster),
        Column("url", "URL", lambda worker: worker.url),
        Column(
            "up",
            "STATE",
            lambda worker: worker.is_up,
            text=lambda worker: "✓ UP" if worker.is_up else "✗ DOWN",
            style=lambda worker: Style.GOOD if worker.is_up else Style.BAD,
        ),
        Column("version", "VERSION", lambda worker: worker.version),
        Column("connectors", "CONNECTORS", lambda worker: worker.connectors if worker.is_up else None, right=True),
        Column("tasks", "TASKS", lambda worker: worker.tasks if worker.is_up else None, right=True),
        Column("commit", "COMMIT", lambda worker: worker.commit, wide=True),
        Column("kafka_cluster_id", "KAFKA CLUSTER", lambda worker: worker.kafka_cluster_id, wide=True),
        Column("clock_skew_seconds", "CLOCK", lambda worker: worker.clock_skew_seconds, text=_skew, wide=True),
        Column("error", "ERROR", lambda worker: worker.error),
    ),
)


def build_workers_view(reading: Reading[Worker]) -> View[Worker]:
    """Build the view of workers, and of the Connect clusters none of whose workers responded."""
    return View(
        WORKER_LISTING,
        reading.items,
        body=lambda: {"items": WORKER_LISTING.build_items(reading.items), "failures": build_failures(reading.failures)},
        empty="no workers",
    )
