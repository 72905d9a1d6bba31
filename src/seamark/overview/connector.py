"""One connector with what belongs to it: its topics, offsets or lag, its spec, and its last changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from seamark.changes.journal import Head
from seamark.changes.journal_views import CHANGE_LISTING
from seamark.connect.api import ConnectPort
from seamark.connect.config import find_group
from seamark.connect.model import Connector
from seamark.connectors.views import (
    CONNECTOR_LISTING,
    build_config_lines,
    build_connector_body,
    build_state_lines,
    render_labels,
)
from seamark.context.context import ConnectSettings
from seamark.core.offsets import Offset
from seamark.core.readings import Reading, fan_out
from seamark.core.refs import ConnectorType
from seamark.errors import ConfigurationError, SeamarkError, UnsupportedError
from seamark.groups.lag import GroupLag, GroupOwners
from seamark.groups.views import LAGS, render_delay
from seamark.offsets.views import build_offset_items, build_offset_lines
from seamark.report.listing import View
from seamark.report.terminal import build_error_body
from seamark.report.text import Line, Screen, Span, Style, line
from seamark.report.words import render_count, render_number

LAST_CHANGES = 5
"""How many changes of a connector are shown."""
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class ConnectorOverview:
    """One connector with what belongs to it.

    Attributes:
        connector: The connector.
        topics: The topics that it has used since the list was last reset, by Connect.
        offsets: The offsets of a source, by Connect; None for a sink.
        lag: The lag of a sink's group; None for a source, or before its first commit.
        group: The group of a sink, "" for a source.
        spec: The spec that owns it, "" if no spec of the newest changes does.
        changes: Its newest changes in the journal.
        failures: What could not be read, by name: topics, offsets, lag or changes.
    """

    connector: Connector
    topics: tuple[str, ...] = ()
    offsets: tuple[Offset, ...] | None = None
    lag: GroupLag | None = None
    group: str = ""
    spec: str = ""
    changes: tuple[Head, ...] = ()
    failures: Mapping[str, SeamarkError] = field(default_factory=dict)

    @property
    def errors(self) -> tuple[SeamarkError, ...]:
        """The failures without what this context or these workers never report, such as a lag without brokers."""
        never = (ConfigurationError, UnsupportedError)
        return tuple(error for error in self.failures.values() if not isinstance(error, never))


@dataclass(frozen=True, slots=True)
class History:
    """What the journal has of a connector: its newest changes, the spec that owns it, or "", and its labels."""

    changes: Sequence[Head] = ()
    spec: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OverviewReaders:
    """What reads the parts of an overview. Each may fail without the others.

    Attributes:
        client: The Connect cluster.
        settings: Its settings in the context.
        read_lag: Returns the lag of groups with these owners, and of no other groups.
        read_history: Returns what the journal has.
    """

    client: ConnectPort
    settings: ConnectSettings
    read_lag: Callable[[GroupOwners], Reading[GroupLag]]
    read_history: Callable[[], History]


def read_overview(connector: Connector, readers: OverviewReaders) -> ConnectorOverview:
    """Read what belongs to a connector. What can't be read is in `failures`."""
    # First and alone: over the connection that the connector was read with, it is known that the worker has read its
    # internal topics. Over another one, that is a request of its own, and the topics are then requested again.
    topics = fan_out({"topics": lambda: readers.client.read_topics(connector.name)})
    calls: dict[str, Callable[[], Any]] = {"changes": readers.read_history}
    group = ""
    if connector.type is ConnectorType.SINK:
        group = find_group(connector.name, connector.config, readers.settings)
        owners = GroupOwners({group: (connector.owner,)}, {group: connector.cluster}, {})
        calls["lag"] = lambda: _find_lag(readers.read_lag(owners), group)
    else:
        calls["offsets"] = lambda: readers.client.read_offsets(connector.name)
    found = fan_out(calls)
    results: dict[str, Any] = {**topics.results, **found.results}
    history: History | None = results.pop("changes", None)
    connector = replace(connector, labels=None if history is None else history.labels)
    history = history or History()
    return ConnectorOverview(
        connector,
        group=group,
        spec=history.spec,
        changes=tuple(history.changes),
        failures={**topics.failures, **found.failures},
        **results,
    )


def _find_lag(reading: Reading[GroupLag], group: str) -> GroupLag | None:
    """Return the lag of a group; None if it doesn't exist.

    Raises:
        SeamarkError: It could not be read.
    """
    found = next((one for one in reading.items if one.name == group), None)
    for error in reading.failures.values() if found is None else ():
        raise error
    return found


def build_overview_view(overview: ConnectorOverview) -> View[Connector]:
    """Build the view of one connector with its tasks, their errors, what belongs to it, and its config."""
    return View(
        CONNECTOR_LISTING,
        (overview.connector,),
        kind="Connector",
        body=lambda: _build_body(overview),
        lines=lambda screen: _build_lines(overview, screen),
    )


def _build_body(overview: ConnectorOverview) -> dict[str, Any]:
    offsets = overview.offsets
    return {
        **build_connector_body(overview.connector),
        "topics": list(overview.topics),
        "group": overview.group or None,
        "lag": LAGS.build_items((overview.lag,))[0] if overview.lag else None,
        "offsets": None if offsets is None else build_offset_items(overview.connector, offsets),
        "spec": overview.spec or None,
        "changes": CHANGE_LISTING.build_items(overview.changes),
        "failures": [{"part": part, "error": build_error_body(error)} for part, error in overview.failures.items()],
    }


def _build_lines(overview: ConnectorOverview, screen: Screen) -> list[Line]:
    connector = overview.connector
    lines = build_state_lines(connector, screen)
    if overview.spec:
        lines.append(line("  spec    ", overview.spec))
    if connector.labels:
        lines.append(line("  labels  ", render_labels(connector.labels)))
    if connector.type is ConnectorType.SINK:
        lines += _build_lag_lines(overview)
    elif overview.offsets is not None or "offsets" in overview.failures:
        lines += _build_offsets_lines(overview, screen)
    lines += _build_topic_lines(overview, screen)
    lines += _build_change_lines(overview, screen)
    return lines + build_config_lines(connector)


def _find_failure(overview: ConnectorOverview, part: str) -> Line | None:
    error = overview.failures.get(part)
    return None if error is None else line("  ", Span(f"{part} could not be read: {error.message}", Style.WARN))


def _title(text: str, part: str, overview: ConnectorOverview) -> list[Line]:
    failure = _find_failure(overview, part)
    return [line(Span(text, Style.STRONG)), *([failure] if failure else [])]


def _build_lag_lines(overview: ConnectorOverview) -> list[Line]:
    lines, lag = _title(f"Group {overview.group}", "lag", overview), overview.lag
    if lag is None:
        return lines if "lag" in overview.failures else [*lines, line("  no committed offsets")]
    if not lag.lag:
        return [*lines, line(f"  {lag.state.lower()}, no committed offsets")]
    if lag.total is None:
        text = f"the lag of {render_count(lag.unknown, 'partition')} could not be read"
        return [*lines, line(f"  {lag.state.lower()}, ", Span(text, Style.WARN))]
    delay = f", the oldest of them {render_delay(lag.delay)} old" if lag.delay and lag.total else ""
    count = f"lag {render_number(lag.total)} in {render_count(len(lag.lag) - lag.unknown, 'partition')}"
    more = [Span(f" ({render_number(lag.unknown)} more could not be read)", Style.WARN)] if lag.unknown else []
    return [*lines, line(f"  {lag.state.lower()}, {count}", *more, delay)]


def _build_offsets_lines(overview: ConnectorOverview, screen: Screen) -> list[Line]:
    offsets = overview.offsets or ()
    lines = _title(f"Offsets ({render_number(len(offsets))})", "offsets", overview)
    if not offsets and "offsets" not in overview.failures:
        return [*lines, line("  none")]
    shown = offsets if screen.wide else offsets[:_SHOWN]
    return [
        *lines,
        *build_offset_lines(overview.connector, shown, screen),
        *_build_more(len(offsets) - len(shown), f"seamark offsets show {overview.connector.owner}"),
    ]


def _build_topic_lines(overview: ConnectorOverview, screen: Screen) -> list[Line]:
    lines = _title(f"Topics ({render_number(len(overview.topics))})", "topics", overview)
    topics = sorted(overview.topics)
    shown = topics if screen.wide else topics[:_SHOWN]
    return [*lines, *(line(f"  {topic}") for topic in shown), *_build_more(len(topics) - len(shown), "-o wide")]


def _build_change_lines(overview: ConnectorOverview, screen: Screen) -> list[Line]:
    if not overview.changes and "changes" not in overview.failures:
        return []
    lines = _title("Last changes", "changes", overview)
    return lines + CHANGE_LISTING.build_lines(overview.changes, screen) if overview.changes else lines


def _build_more(count: int, where: str) -> list[Line]:
    return [line("  ", Span(f"… {render_number(count)} more: {where}", Style.MUTED))] if count > 0 else []
