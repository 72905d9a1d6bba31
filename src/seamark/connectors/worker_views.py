"""Views of plugins, loggers and workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from seamark.connect.loggers import FleetLogger
from seamark.connect.model import ConfigKey, State, Worker
from seamark.connect.plugins import FleetPlugin, PluginDefinition
from seamark.connectors.views import render_state, style_state
from seamark.connectors.workers import Imbalance, WorkerDetail, find_imbalances
from seamark.core.readings import Reading
from seamark.core.secrets import MASK
from seamark.report.listing import Column, Listing, View
from seamark.report.terminal import build_error_body, build_failures
from seamark.report.text import Line, Screen, Span, Style, line
from seamark.report.words import render_number


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


IMBALANCES: Listing[Imbalance] = Listing(
    kind="ImbalanceList",
    noun="imbalance",
    name=lambda found: found.cluster,
    columns=(
        Column("cluster", "CLUSTER", lambda found: found.cluster),
        Column("kind", "KIND", lambda found: found.kind),
        Column("busiest", "BUSIEST", lambda found: found.busiest),
        Column("most", "MOST", lambda found: found.most),
        Column("idlest", "IDLEST", lambda found: found.idlest),
        Column("least", "LEAST", lambda found: found.least),
    ),
)


def describe_imbalance(found: Imbalance) -> str:
    """Describe an imbalance: `tasks are unevenly distributed: 5 on http://w1:8083, 0 on http://w2:8083`."""
    counts = f"{render_number(found.most)} on {found.busiest}, {render_number(found.least)} on {found.idlest}"
    return f"{found.kind} are unevenly distributed: {counts}"


def build_workers_view(reading: Reading[Worker]) -> View[Worker]:
    """Build the view of workers, what is unbalanced, and the Connect clusters none of whose workers responded."""
    imbalances = find_imbalances(reading.items)
    return View(
        WORKER_LISTING,
        reading.items,
        body=lambda: {
            "items": WORKER_LISTING.build_items(reading.items),
            "imbalances": IMBALANCES.build_items(imbalances),
            "failures": build_failures(reading.failures),
        },
        lines=lambda screen: WORKER_LISTING.build_lines(reading.items, screen) + _build_imbalance_lines(imbalances),
        empty="no workers",
    )


def _build_imbalance_lines(imbalances: Sequence[Imbalance]) -> list[Line]:
    lines = [line(Span(f"▲ {found.cluster}: {describe_imbalance(found)}", Style.WARN)) for found in imbalances]
    return [*lines, line("  for what to do, run: seamark doctor")] if lines else []


@dataclass(frozen=True, slots=True)
class _Placed:
    """A connector or a task on a worker."""

    connector: str
    task: int | None
    state: State


PLACED: Listing[_Placed] = Listing(
    kind="PlacedList",
    noun="connector",
    name=lambda placed: placed.connector,
    columns=(
        Column("connector", "CONNECTOR", lambda placed: placed.connector),
        Column("task", "TASK", lambda placed: placed.task, right=True, is_id=True),
        Column(
            "state",
            "STATE",
            lambda placed: placed.state.value,
            text=lambda placed: render_state(placed.state),
            style=lambda placed: style_state(placed.state),
        ),
    ),
)
# A worker of a large fleet runs a thousand tasks; `-o wide` and JSON have all of them.
_SHOWN = 20


def build_worker_view(detail: WorkerDetail) -> View[Worker]:
    """Build the view of one worker with its connectors and tasks, and how it differs from the other workers."""
    return View(
        WORKER_LISTING,
        (detail.worker,),
        kind="Worker",
        body=lambda: _build_worker_body(detail),
        lines=lambda screen: _build_worker_lines(detail, screen),
    )


def _list_placed(detail: WorkerDetail) -> list[_Placed]:
    """Return connectors and tasks, those that failed first."""
    found = [_Placed(one.owner, None, one.status.state) for one in detail.connectors if one.status is not None]
    found += [_Placed(one.owner, task.id, task.state) for one, task in detail.tasks]
    return sorted(
        found, key=lambda one: (one.state is not State.FAILED, one.connector, -1 if one.task is None else one.task)
    )


def _build_worker_body(detail: WorkerDetail) -> dict[str, Any]:
    (item,) = WORKER_LISTING.build_items((detail.worker,))
    group = detail.group
    return {
        **item,
        "worker_id": detail.worker_id,
        "worker_group": None
        if group is None
        else {"name": group.name, "state": group.state, "member": detail.is_member, "leader": detail.is_leader},
        "assigned": PLACED.build_items(_list_placed(detail)),
        "other_workers": WORKER_LISTING.build_items(detail.others),
        "imbalances": IMBALANCES.build_items(detail.imbalances),
        "missing_plugins": PLUGIN_LISTING.build_items(detail.missing),
        "failures": [{"part": part, "error": build_error_body(error)} for part, error in detail.failures.items()],
    }


def _build_worker_lines(detail: WorkerDetail, screen: Screen) -> list[Line]:
    worker = detail.worker
    state = Span("✓ UP", Style.GOOD) if worker.is_up else Span("✗ DOWN", Style.BAD)
    facts = (
        ("error", worker.error),
        ("version", f"{worker.version} {worker.commit if screen.wide else ''}".strip()),
        ("Kafka cluster", worker.kafka_cluster_id),
        ("worker ID", detail.worker_id),
        ("worker group", _format_group(detail)),
        ("clock", "" if worker.clock_skew_seconds is None else _skew(worker)),
    )
    return [
        line(Span(worker.url, Style.STRONG), f" · {worker.cluster} · ", state),
        *(line(f"  {name:<13}  {text}") for name, text in facts if text),
        *(
            line("  ", Span(f"{part} could not be read: {error.message}", Style.WARN))
            for part, error in detail.failures.items()
        ),
        *_build_placed_lines(detail, screen),
        *_build_other_lines(detail, screen),
        *_build_lacking_lines(detail, screen),
        *_build_imbalance_lines(detail.imbalances),
    ]


def _format_group(detail: WorkerDetail) -> str:
    if detail.group is None:
        return ""
    role = {None: "", True: " · leader", False: " · follower"}[detail.is_leader]
    # Stable is the usual state; only others are shown.
    state = "" if detail.group.state == "Stable" else f" · {detail.group.state}"
    return f"{detail.group.name}{' · not a member' if detail.is_member is False else role}{state}"


def _build_placed_lines(detail: WorkerDetail, screen: Screen) -> list[Line]:
    if "connectors" in detail.failures or not (detail.worker_id or detail.worker.is_up):
        return []
    if not detail.worker_id:
        return [line("  ", Span("no state names a worker at this URL; it may be that of a load balancer", Style.WARN))]
    placed = _list_placed(detail)
    counts = f"{render_number(len(detail.connectors))}) and tasks ({render_number(len(detail.tasks))}"
    title = f"Connectors ({counts})"
    # The states were written while the worker was up, and stay until its work is assigned to others.
    note = " as last reported" if placed and not detail.worker.is_up else ""
    shown = placed if screen.wide else placed[:_SHOWN]
    rest = len(placed) - len(shown)
    more = [line("  ", Span(f"… {render_number(rest)} more: -o wide", Style.MUTED))] if rest else []
    return [
        line(Span(title, Style.STRONG), note),
        *PLACED.build_lines(shown, screen, indent="  "),
        *more,
    ]


def _build_other_lines(detail: WorkerDetail, screen: Screen) -> list[Line]:
    if not detail.others:
        return []
    title = line(Span(f"Other workers ({render_number(len(detail.others))})", Style.STRONG))
    return [title, *WORKER_LISTING.build_lines(detail.others, screen, indent="  ")]


def _build_lacking_lines(detail: WorkerDetail, screen: Screen) -> list[Line]:
    if not detail.missing:
        return []
    title = line(Span(f"Plugins that other workers have ({render_number(len(detail.missing))})", Style.STRONG))
    return [title, *PLUGIN_LISTING.build_lines(detail.missing, screen, indent="  ")]
