"""What all workers of a fake cluster share: connectors, what the status topic shows, offsets, topics."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fakes.connect.plugins import FILE_SOURCE, PluginSpec

OffsetMap = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shown:
    """What the status topic says of a connector: one state, one trace, a state and a trace for each task."""

    state: str
    tasks: tuple[str, ...] = ()
    trace: str = ""
    task_traces: tuple[str, ...] = ()


@dataclass(slots=True)
class FakeConnector:
    """One connector. `target` is what was asked for; what is shown follows after the status lag."""

    name: str
    config: dict[str, str | None]
    plugin: PluginSpec
    target: str = "RUNNING"
    task_count: int = 0
    # Connect still knows the tasks of a stopped connector when it is asked to restart one.
    last_task_count: int = 0
    shown: Shown | None = None
    pending: Shown | None = None
    pending_at: float = 0.0

    @property
    def wanted_tasks(self) -> int:
        """How many tasks the plugin makes of `tasks.max`."""
        return 1 if self.plugin.class_name == FILE_SOURCE else int(self.config.get("tasks.max") or 1)


@dataclass(slots=True)
class FakeState:
    """The cluster. Not thread-safe by itself: the server holds its lock, as Connect's herder has one thread."""

    status_lag_seconds: float = 0.0
    connectors: dict[str, FakeConnector] = field(default_factory=dict)
    # Statuses of connectors that were deleted a moment ago, and when they go.
    lingering: dict[str, tuple[Shown, float]] = field(default_factory=dict)
    # By connector name, so that they outlive the connector; then by partition as JSON.
    offsets: dict[str, dict[str, OffsetMap]] = field(default_factory=dict)
    used_topics: dict[str, set[str]] = field(default_factory=dict)
    # How many records each topic has. All of them in partition 0.
    topics: dict[str, int] = field(default_factory=dict)
    loggers: dict[str, tuple[str, int | None]] = field(default_factory=lambda: {"root": ("INFO", None)})

    def put(self, name: str, config: dict[str, str | None], plugin: PluginSpec, *, target: str | None = None) -> bool:
        """Create or change a connector; True where it is new."""
        known = self.connectors.get(name)
        if known is None:
            known = self.connectors[name] = FakeConnector(name, config, plugin, target=target or "RUNNING")
            self.lingering.pop(name, None)
            self._settle(known)
            return True
        known.config, known.plugin = config, plugin
        self._settle(known)
        return False

    def set_target(self, connector: FakeConnector, target: str) -> None:
        """Pause, resume or stop."""
        connector.target = target
        self._settle(connector)

    def delete(self, name: str) -> None:
        """Remove the connector. Its offsets stay, and its status is shown a little longer."""
        connector = self.connectors.pop(name)
        shown = self.show(connector)
        if shown is not None and self.status_lag_seconds:
            self.lingering[name] = (shown, time.monotonic() + self.status_lag_seconds)

    def show(self, connector: FakeConnector) -> Shown | None:
        """What the status topic says by now."""
        if connector.pending is not None and time.monotonic() >= connector.pending_at:
            connector.shown, connector.pending = connector.pending, None
        return connector.shown

    def show_lingering(self, name: str) -> Shown | None:
        """What the status topic still says of a connector that was deleted."""
        shown, until = self.lingering.get(name, (None, 0.0))
        return shown if time.monotonic() < until else None

    def set_shown(self, connector: FakeConnector, shown: Shown) -> None:
        """Let the status topic say this, after the lag."""
        connector.pending, connector.pending_at = shown, time.monotonic() + self.status_lag_seconds

    def work(self, connector: FakeConnector) -> None:
        """Let a running connector do what it would have done by now: a file source reads on, a sink catches up."""
        if connector.target != "RUNNING" or self.show(connector) is None:
            return
        if connector.plugin.class_name == FILE_SOURCE:
            self._read_file(connector)
        elif connector.plugin.type == "sink":
            self._read_topics(connector)

    def offsets_of(self, name: str) -> list[dict[str, Any]]:
        """A connector's offsets as REST tells them."""
        held = self.offsets.get(name, {})
        return [{"partition": json.loads(key), "offset": value} for key, value in held.items()]

    def write_offset(self, name: str, partition: OffsetMap | None, offset: OffsetMap | None) -> None:
        """Keep an offset, or forget it where it is None."""
        held = self.offsets.setdefault(name, {})
        key = json.dumps(partition, sort_keys=True)
        if offset is None:
            held.pop(key, None)
        else:
            held[key] = offset

    def set_offsets(self, name: str, offsets: Sequence[dict[str, Any]]) -> None:
        """Keep exactly these offsets."""
        self.offsets[name] = {}
        for entry in offsets:
            self.write_offset(name, entry["partition"], entry["offset"])

    def _settle(self, connector: FakeConnector) -> None:
        """Give a connector the tasks of its target state and let the status topic say so."""
        if connector.target == "STOPPED":
            connector.task_count = 0
        elif connector.target == "RUNNING":
            connector.task_count = connector.last_task_count = connector.wanted_tasks
        # A stopped connector that is paused stays without tasks until it is resumed.
        self.set_shown(connector, Shown(connector.target, (connector.target,) * connector.task_count))

    def _read_file(self, connector: FakeConnector) -> None:
        file, topic = connector.config.get("file"), connector.config.get("topic") or ""
        if not file or not Path(file).is_file():
            return
        partition = {"filename": file}
        held = self.offsets.get(connector.name, {}).get(json.dumps(partition, sort_keys=True))
        position = int((held or {}).get("position", 0))
        data = Path(file).read_bytes()
        if len(data) <= position:
            return
        self.topics[topic] = self.topics.get(topic, 0) + data[position:].count(b"\n")
        self.used_topics.setdefault(connector.name, set()).add(topic)
        self.write_offset(connector.name, partition, {"position": len(data)})

    def _read_topics(self, connector: FakeConnector) -> None:
        for topic in (connector.config.get("topics") or "").split(","):
            if end := self.topics.get(topic.strip(), 0):
                partition = {"kafka_topic": topic.strip(), "kafka_partition": 0}
                self.used_topics.setdefault(connector.name, set()).add(topic.strip())
                self.write_offset(connector.name, partition, {"kafka_offset": end})
