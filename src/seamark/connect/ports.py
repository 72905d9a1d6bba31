"""The keys under which the environment of a change provides Connect clusters."""

from __future__ import annotations

from collections.abc import Callable

from seamark.connect.changing_api import ConnectStepPort
from seamark.connect.connector import ConnectorStatus
from seamark.core.ports import Port

CONNECT: Port[Callable[[str], ConnectStepPort]] = Port("connect")
"""Opens the Connect cluster of a name."""

STATUSES: Port[Callable[[str, str], ConnectorStatus]] = Port("read_status")
"""Reads the status of a connector, never older than the question; many who wait may share one reading.

Raises NotFoundError where Connect has none.
"""

WORKER_URLS: Port[Callable[[str], tuple[str, ...]]] = Port("worker_urls")
"""Reads which workers of a Connect cluster are up, as the brokers know them; none where all are down."""
