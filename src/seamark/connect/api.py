"""What readers of a Connect cluster need of its client."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from seamark.connect.changing_api import ConnectStepPort
from seamark.connect.connector import ConnectorStatus
from seamark.connect.wait import Wait
from seamark.connect.worker import Plugin, Worker
from seamark.core.offset import Offset

if TYPE_CHECKING:
    from seamark.connect import Capabilities, Validation


class ConnectPort(ConnectStepPort, Protocol):
    """One Connect cluster, to read and to change. `seamark.connect.ConnectClient` is the real one."""

    def read_statuses(self) -> dict[str, ConnectorStatus]:
        """The status of every connector that has one, in one call."""

    def read_workers(self) -> tuple[Worker, ...]:
        """Every worker by its url; one that did not answer says so in `error`."""

    def validate_config(self, plugin: str, config: Mapping[str, str]) -> Validation:
        """What the plugin says of a config. Changes nothing."""

    def read_plugins(self, url: str | None = None) -> tuple[Plugin, ...]:
        """The plugins of the worker at that url, or of any."""

    def read_password_keys(self, plugin: str) -> frozenset[str]:
        """Return the keys that a plugin types as PASSWORD, from 3.2 on."""

    def read_offsets(self, name: str, url: str | None = None) -> tuple[Offset, ...]:
        """The offsets of one connector, as any worker tells them, or the one at that url."""

    def patch_offsets(self, name: str, offsets: Sequence[Offset]) -> object:
        """Change the offsets of a stopped connector."""

    def find_silent(self, workers: Sequence[str], *, members: Collection[str] | None = None) -> tuple[str, ...]:
        """Return those of these workers, by worker_id, that are not known to be alive."""

    def read_topics(self, name: str) -> tuple[str, ...]:
        """The topics that one connector has used since the list was last reset."""

    def read_capabilities(self) -> Capabilities:
        """What every worker that answers can do."""

    def waits(self) -> tuple[Wait, ...]:
        """The calls that have not ended yet."""

    def close(self) -> None:
        """Let go of the connections."""
