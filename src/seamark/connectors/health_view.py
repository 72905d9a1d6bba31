"""Health and state words with a symbol and a style; colour is only ever the third sign."""

from __future__ import annotations

from collections.abc import Mapping

from seamark.connect.connector import State
from seamark.connectors.health import Health
from seamark.report.text import Span, Style

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
    """Symbol and word: `✓ HEALTHY`."""
    return f"{_HEALTH[health][0]} {health}"


def style_health(health: Health) -> Style:
    """The style that goes with the word."""
    return _HEALTH[health][1]


def render_state(state: State) -> str:
    """Symbol and word of one connector or task: `✗ FAILED`."""
    return f"{_HEALTH[_STATE[state]][0]} {state}"


def style_state(state: State) -> Style:
    """The style that goes with the word."""
    return style_health(_STATE[state])


def build_health_spans(counts: Mapping[Health, int]) -> list[Span]:
    """Counts by word, worst first: `✗ 2 UNHEALTHY  ✓ 14 HEALTHY`."""
    return [
        Span(f"{_HEALTH[health][0]} {counts[health]} {health}", style_health(health))
        for health in _WORST_FIRST
        if counts.get(health)
    ]
