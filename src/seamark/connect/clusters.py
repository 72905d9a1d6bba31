"""The Connect clusters of a context, each with its client, opened when first needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from seamark.connect.api import ConnectPort
from seamark.connect.plugin_types import PluginTypes
from seamark.connect.wait import Wait
from seamark.core.fanout import FanOut, fan_out
from seamark.errors import NotFoundError

if TYPE_CHECKING:
    from seamark.connect import Timing
    from seamark.context import ConnectSettings, Context

T = TypeVar("T")


class Clusters:
    """The Connect clusters of one context, by name."""

    def __init__(self, context: Context, *, build_client: Callable[[ConnectSettings], ConnectPort]) -> None:
        self._context = context
        self._build_client = build_client
        self._clients: dict[str, ConnectPort] = {}
        self.types = PluginTypes(self.client)
        self._lock = Lock()

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in the order of the context."""
        return tuple(self._context.connect)

    def settings(self, name: str) -> ConnectSettings:
        """The settings of one cluster; an error that lists the others where there is none of that name."""
        found = self._context.connect.get(name)
        if found is None:
            raise NotFoundError(
                f"context {self._context.name} has no Connect cluster {name}",
                cause=f"it has: {', '.join(self.names) or 'none'}",
                hint="use one of these names, or add the cluster to the context",
                context={"cluster": name},
            )
        return found

    def client(self, name: str) -> ConnectPort:
        """The client of one cluster."""
        settings = self.settings(name)
        with self._lock:
            if name not in self._clients:
                self._clients[name] = self._build_client(settings)
            return self._clients[name]

    def ask(self, question: Callable[[ConnectPort], T], *, names: Sequence[str] | None = None) -> FanOut[T]:
        """Put one question to several clusters at once; to all of them without `names`."""
        wanted = self.names if names is None else names
        return fan_out({name: self._bind(question, name) for name in wanted})

    def waits(self) -> tuple[Wait, ...]:
        """The calls to any cluster that have not ended yet."""
        with self._lock:
            clients = list(self._clients.values())
        return tuple(wait for client in clients for wait in client.waits())

    def close(self) -> None:
        """Close every client that was opened."""
        with self._lock:
            clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            client.close()

    def _bind(self, question: Callable[[ConnectPort], T], name: str) -> Callable[[], T]:
        return lambda: question(self.client(name))


def build_connect_client(
    settings: ConnectSettings,
    *,
    timing: Timing | None = None,
    read_config_names: Callable[[], frozenset[str]] | None = None,
) -> ConnectPort:
    """The real client of a cluster."""
    from seamark.connect import ConnectClient  # noqa: PLC0415

    return ConnectClient(
        settings.urls,
        cluster=settings.name,
        username=settings.username,
        password=settings.password.reveal() if settings.password is not None else None,
        ca_file=str(settings.ca_file) if settings.ca_file is not None else None,
        verify=settings.verify,
        timing=timing,
        read_config_names=read_config_names,
    )
