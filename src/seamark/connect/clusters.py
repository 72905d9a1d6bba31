"""The Connect clusters of a context, each with its client, opened when first needed."""

from __future__ import annotations

import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from seamark.connect.api import ConnectPort
from seamark.connect.model import Connector, ConnectorStatus, Wait
from seamark.core.readings import FanOut, fan_out
from seamark.core.secrets import PLUGIN_KEYS, find_plugins, find_secret_keys, find_secret_values, hide_values
from seamark.errors import NotFoundError, SeamarkError, UnsupportedError

if TYPE_CHECKING:
    from seamark.connect.caller import Timing
    from seamark.context import ConnectSettings, Context


# A thousand failed connectors must not wait for the same silent workers one after the other.
_SILENT_SECONDS = 60.0
# What selects plugins. Only these keys are sent to `validate` of workers older than 3.2: no address and no secret.
_CONVERTERS = ("key.converter", "value.converter", "header.converter")


class PluginTypes:
    """Reads the types of plugins from the Connect clusters of one context. Thread-safe."""

    def __init__(self, open_client: Callable[[str], ConnectPort]) -> None:
        self._open_client = open_client
        # One cluster that is slow must not hold up the others.
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._silent_since: dict[str, float] = {}

    def find_secret_keys(self, cluster: str, config: Mapping[str, str]) -> frozenset[str]:
        """Return the keys of a config that are secret by their types in a Connect cluster.

        Raises:
            UnreachableError: no worker answered. If a worker answers without the types, every key of that plugin is
                treated as a secret instead.
        """
        if unread := _find_unread(cluster, config):
            with self._locks[cluster]:
                # Another thread may have read them meanwhile.
                if unread := _find_unread(cluster, config):
                    self._read(cluster, config, unread)
        return find_secret_keys(config, cluster)

    def read(self, connectors: Iterable[Connector]) -> None:
        """Read the types of the plugins of these connectors. What can't be read stays unread, so that it is hidden."""
        by_cluster: dict[str, list[Connector]] = {}
        for connector in connectors:
            by_cluster.setdefault(connector.cluster, []).append(connector)
        fan_out({cluster: partial(self._read_each, found) for cluster, found in by_cluster.items()})

    def _read_each(self, connectors: Iterable[Connector]) -> None:
        for connector in connectors:
            self._try(connector.cluster, connector.config)

    def _try(self, cluster: str, config: Mapping[str, str]) -> None:
        """Read the types if the workers answer; workers that don't are skipped for `_SILENT_SECONDS`."""
        if time.monotonic() - self._silent_since.get(cluster, -math.inf) < _SILENT_SECONDS:
            return
        try:
            self.find_secret_keys(cluster, config)
        except SeamarkError:
            self._silent_since[cluster] = time.monotonic()

    def clean(self, connector: Connector) -> Connector:
        """Return the connector without its secrets in the traces of its status: a plugin's error may quote a value."""
        if connector.status is None or not has_trace(connector.status):
            return connector
        return replace(connector, status=self.clean_status(connector.cluster, connector.config, connector.status))

    def clean_status(self, cluster: str, config: Mapping[str, str], status: ConnectorStatus) -> ConnectorStatus:
        """Return the status without the secrets of a config in its traces.

        If no worker reports the types, the values are hidden that are secret by their names and looks.
        """
        self._try(cluster, config)
        secrets = find_secret_values(config)
        tasks = tuple(replace(task, trace=hide_values(task.trace, secrets)) for task in status.tasks)
        return replace(status, trace=hide_values(status.trace, secrets), tasks=tasks)

    def _read(self, cluster: str, config: Mapping[str, str], unread: Iterable[str]) -> None:
        client = self._open_client(cluster)
        for plugin in unread:
            try:
                PLUGIN_KEYS.remember(cluster, plugin, client.read_password_keys(plugin))
            except UnsupportedError:
                self._read_by_validation(cluster, config)
                return
            except SeamarkError as error:
                if error.retryable:
                    raise
                PLUGIN_KEYS.remember_unknown(cluster, plugin, error.cause or error.message)

    def _read_by_validation(self, cluster: str, config: Mapping[str, str]) -> None:
        """Read the types with `validate`, which reports the keys of transformations and predicates with their prefixes.

        Workers of these versions don't report the keys of converters.
        """
        plugins = dict(find_plugins(config))
        try:
            found = self._open_client(cluster).validate_config(plugins[""], _build_selection(config, plugins)).secret
        except SeamarkError as error:
            if error.retryable:
                raise
            for plugin in plugins.values():
                PLUGIN_KEYS.remember_unknown(cluster, plugin, error.cause or error.message)
            return
        prefixes = tuple(prefix for prefix in plugins if prefix)
        passwords: dict[str, set[str]] = {plugin: set() for plugin in plugins.values()}
        for prefix, plugin in plugins.items():
            keys = {key.removeprefix(prefix) for key in found if key.startswith(prefix)}
            passwords[plugin] |= keys if prefix else {key for key in keys if not key.startswith(prefixes)}
        for plugin, typed in passwords.items():
            PLUGIN_KEYS.remember(cluster, plugin, frozenset(typed))


def has_trace(status: ConnectorStatus) -> bool:
    """Return whether the connector or one of its tasks has a stack trace."""
    return bool(status.trace) or any(task.trace for task in status.tasks)


def _find_unread(cluster: str, config: Mapping[str, str]) -> tuple[str, ...]:
    plugins = dict.fromkeys(plugin for _, plugin in find_plugins(config) if plugin)
    return tuple(plugin for plugin in plugins if not PLUGIN_KEYS.is_read(cluster, plugin))


def _build_selection(config: Mapping[str, str], plugins: Mapping[str, str]) -> dict[str, str]:
    """Build a config that names the plugins and nothing else. Workers before 4.0 fail for a sink without topics."""
    selected = {key: config[key] for key in ("transforms", "predicates", *_CONVERTERS) if key in config}
    types = {f"{prefix}type": plugin for prefix, plugin in plugins.items() if prefix.startswith(("trans", "pred"))}
    return {"name": "seamark", "connector.class": plugins[""], "topics": "seamark", **selected, **types}


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
                hint="use one of these names, or add the Connect cluster to the context",
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
    from seamark.connect.client import ConnectClient  # noqa: PLC0415

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
