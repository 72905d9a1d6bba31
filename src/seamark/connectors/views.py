"""Views of connectors: the list, and one in detail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from seamark.connect.model import Connector, State, Task, clean_trace, fold_trace
from seamark.connectors.heal import HealedConnector, RestartDecision
from seamark.connectors.model import Health, build_health
from seamark.core.secrets import PLUGIN_KEYS, find_plugins, mask_config
from seamark.errors import SeamarkError
from seamark.report.listing import Column, Listing, View
from seamark.report.terminal import build_failures
from seamark.report.text import Line, Screen, Span, Style, line
from seamark.report.words import render_count, render_number

_SYMBOLS = {
    RestartDecision.WELL: "✓",
    RestartDecision.WATCHED: "✓",
    RestartDecision.GIVEN_UP: "✗",
    RestartDecision.LEFT_ALONE: "‖",
    RestartDecision.UNKNOWN: "?",
}


def _style(found: HealedConnector) -> Style:
    if found.is_running:
        return Style.GOOD
    return Style.BAD if found.decision is RestartDecision.GIVEN_UP else Style.WARN


HEAL_LISTING: Listing[HealedConnector] = Listing(
    kind="Healing",
    noun="connector",
    name=lambda found: found.owner,
    columns=(
        Column("owner", "CONNECTOR", lambda found: found.owner),
        Column(
            "outcome",
            "OUTCOME",
            lambda found: found.decision.value,
            text=lambda found: f"{_SYMBOLS.get(found.decision, '▲')} {found.decision}",
            style=_style,
        ),
        Column("restarts", "RESTARTS", lambda found: found.restarts, right=True),
        Column("why", "ERROR", lambda found: found.why),
    ),
)


def build_heal_view(
    connectors: Sequence[HealedConnector], failures: Mapping[str, SeamarkError]
) -> View[HealedConnector]:
    """Build the view of connectors that had failed; an empty list is valid."""
    return View(
        HEAL_LISTING,
        connectors,
        body=lambda: {"items": HEAL_LISTING.build_items(connectors), "failures": build_failures(failures)},
        empty="no failed connectors",
    )


_HEALTH = {
    Health.HEALTHY: ("✓", Style.GOOD),
    Health.DEGRADED: ("▲", Style.WARN),
    Health.UNHEALTHY: ("✗", Style.BAD),
    Health.PAUSED: ("‖", Style.MUTED),
    Health.STOPPED: ("■", Style.MUTED),
    Health.RESTARTING: ("↻", Style.WARN),
    Health.UNASSIGNED: ("○", Style.WARN),
    Health.DESTROYED: ("⌫", Style.BAD),
    Health.UNKNOWN: ("?", Style.WARN),
}
_STATE = {
    State.RUNNING: Health.HEALTHY,
    State.FAILED: Health.UNHEALTHY,
    State.PAUSED: Health.PAUSED,
    State.STOPPED: Health.STOPPED,
    State.RESTARTING: Health.RESTARTING,
    State.UNASSIGNED: Health.UNASSIGNED,
    State.DESTROYED: Health.DESTROYED,
    State.UNKNOWN: Health.UNKNOWN,
}
_WORST_FIRST = (
    Health.UNHEALTHY,
    Health.DEGRADED,
    Health.UNKNOWN,
    Health.DESTROYED,
    Health.UNASSIGNED,
    Health.RESTARTING,
    Health.STOPPED,
    Health.PAUSED,
    Health.HEALTHY,
)


def render_health(health: Health) -> str:
    """Format a symbol and the health: `✓ HEALTHY`."""
    return f"{_HEALTH[health][0]} {health}"


def style_health(health: Health) -> Style:
    """Return the style of a health value."""
    return _HEALTH[health][1]


def render_state(state: State) -> str:
    """Format a symbol and the state of a connector or task: `✗ FAILED`."""
    return f"{_HEALTH[_STATE[state]][0]} {state}"


def style_state(state: State) -> Style:
    """Return the style of a state."""
    return style_health(_STATE[state])


def build_health_spans(counts: Mapping[Health, int]) -> list[Span]:
    """Format counts by health, worst first: `✗ 2 UNHEALTHY  ✓ 14 HEALTHY`."""
    return [
        Span(f"{_HEALTH[health][0]} {render_number(counts[health])} {health}", style_health(health))
        for health in _WORST_FIRST
        if counts.get(health)
    ]


def _health(connector: Connector) -> Health:
    return build_health(connector.status)


def _tasks(connector: Connector) -> tuple[Task, ...]:
    return connector.status.tasks if connector.status else ()


def _tasks_in(connector: Connector, state: State) -> int:
    return sum(task.state is state for task in _tasks(connector))


def _short_class(connector: Connector) -> str:
    return connector.plugin.rpartition(".")[2] or "-"


def render_labels(labels: Mapping[str, str]) -> str:
    """Format labels: `team=game,tier=gold`."""
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels))


CONNECTOR_LISTING: Listing[Connector] = Listing(
    kind="ConnectorList",
    noun="connector",
    name=lambda connector: connector.owner,
    columns=(
        Column("name", "NAME", lambda connector: connector.name),
        Column("cluster", "CLUSTER", lambda connector: connector.cluster),
        Column("type", "TYPE", lambda connector: connector.type.value),
        Column(
            "health",
            "HEALTH",
            lambda connector: _health(connector).value,
            text=lambda connector: render_health(_health(connector)),
            style=lambda connector: style_health(_health(connector)),
        ),
        Column(
            "state",
            "STATE",
            lambda connector: connector.status.state.value if connector.status else None,
            wide=True,
        ),
        Column(
            "tasks_running",
            "TASKS",
            lambda connector: _tasks_in(connector, State.RUNNING),
            text=lambda connector: f"{_tasks_in(connector, State.RUNNING)}/{len(_tasks(connector))}",
            right=True,
        ),
        Column("tasks_failed", "", lambda connector: _tasks_in(connector, State.FAILED)),
        Column("tasks_total", "", lambda connector: len(_tasks(connector))),
        Column(
            "plugin",
            "PLUGIN",
            lambda connector: connector.plugin,
            text=_short_class,
            long=lambda connector: connector.plugin or "-",
        ),
        Column(
            "version",
            "VERSION",
            lambda connector: connector.status.version if connector.status else "",
            wide=True,
        ),
        Column(
            "worker",
            "WORKER",
            lambda connector: connector.status.worker_id if connector.status else "",
            wide=True,
        ),
        Column(
            "labels",
            "LABELS",
            lambda connector: None if connector.labels is None else dict(connector.labels),
            text=lambda connector: "?" if connector.labels is None else render_labels(connector.labels) or "-",
            wide=True,
        ),
    ),
)

TASKS: Listing[Task] = Listing(
    kind="TaskList",
    noun="task",
    name=lambda task: str(task.id),
    columns=(
        Column("id", "TASK", lambda task: task.id, right=True, is_id=True),
        Column(
            "state",
            "STATE",
            lambda task: task.state.value,
            text=lambda task: render_state(task.state),
            style=lambda task: style_state(task.state),
        ),
        Column("worker", "WORKER", lambda task: task.worker_id),
        Column("trace", "", lambda task: "\n".join(clean_trace(task.trace))),
    ),
)


def build_connectors_view(connectors: Sequence[Connector], failures: Mapping[str, SeamarkError]) -> View[Connector]:
    """Build the view of connectors, and of what could not be read."""
    return View(
        CONNECTOR_LISTING,
        connectors,
        body=lambda: {"items": CONNECTOR_LISTING.build_items(connectors), "failures": build_failures(failures)},
        empty="no connectors",
    )


def build_heading(connector: Connector, *more: str) -> Line:
    """Build the heading: `orders-sink · game · sink · ✓ HEALTHY`."""
    health = _health(connector)
    spans = [
        Span(connector.name, Style.STRONG),
        Span(f" · {connector.cluster} · {connector.type} · "),
        Span(render_health(health), style_health(health)),
    ]
    return (*spans, *(Span(f" · {text}") for text in more if text))


def build_connector_body(connector: Connector) -> dict[str, Any]:
    """Build the state of one connector, its tasks and its config as structured data."""
    (item,) = CONNECTOR_LISTING.build_items((connector,))
    status = connector.status
    trace = "\n".join(clean_trace(status.trace)) if status else ""
    return {
        **item,
        "trace": trace,
        "tasks": TASKS.build_items(_tasks(connector)),
        "config": mask_config(connector.config),
    }


def build_state_lines(connector: Connector, screen: Screen) -> list[Line]:
    """Build the lines of a connector's plugin and state, and of its tasks with their errors."""
    status = connector.status
    version = status.version if status else ""
    lines = [build_heading(connector), line("  plugin  ", f"{connector.plugin or '-'} {version}".strip())]
    if status is None:
        lines.append(line("  status  ", Span("Connect reports none yet", Style.WARN)))
    else:
        state = Span(render_state(status.state), style_state(status.state))
        lines.append(line("  state   ", state, _on(status.worker_id)))
        lines += _build_trace(status.trace, screen)
        lines += _build_tasks(status.tasks, screen)
    return lines


def build_config_lines(connector: Connector) -> list[Line]:
    """Build the lines of a connector's config, without its secrets."""
    title = line(Span(f"Config ({render_count(len(connector.config), 'key')})", Style.STRONG))
    return [title, *_build_type_notes(connector), *_build_config(mask_config(connector.config))]


def _build_type_notes(connector: Connector) -> list[Line]:
    causes = PLUGIN_KEYS.find_causes(connector.cluster)
    used = dict.fromkeys(plugin for _, plugin in find_plugins(connector.config) if plugin in causes)
    return [
        line("  ", Span(f"values of {plugin} are hidden: its types can't be read ({causes[plugin]})", Style.WARN))
        for plugin in used
    ]


def _build_tasks(tasks: Sequence[Task], screen: Screen) -> list[Line]:
    lines = [line(Span(f"Tasks ({len(tasks)})", Style.STRONG))]
    for task in tasks:
        lines.append(
            line(f"  {task.id}  ", Span(render_state(task.state), style_state(task.state)), _on(task.worker_id))
        )
        lines += _build_trace(task.trace, screen)
    return lines


def _build_trace(trace: str, screen: Screen) -> list[Line]:
    if screen.wide:
        return [line(f"     {text}") for text in clean_trace(trace)]
    folded = fold_trace(trace)
    lines = [line("     ", Span(text, Style.BAD)) for text in folded.lines]
    if folded.hidden:
        lines.append(line("     ", Span(f"… {render_count(folded.hidden, 'line')} more: -o wide", Style.MUTED)))
    return lines


def _build_config(config: Mapping[str, str]) -> list[Line]:
    width = max(map(len, config), default=0)
    return [line(f"  {key:<{width}}  ", config[key]) for key in sorted(config)]


def _on(worker_id: str) -> str:
    return f" on {worker_id}" if worker_id else ""
