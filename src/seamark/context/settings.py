"""The settings of one Kafka cluster and of one Connect cluster, ready for their clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from seamark.context.files import expand_path
from seamark.context.java_client import build_client_config
from seamark.context.kafka_keys import PATH_KEYS, PROBE
from seamark.context.safety import check_kafka_transport
from seamark.context.secret import Secret
from seamark.context.value import Value
from seamark.errors import MissingSettingError


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """How to reach the Kafka cluster. Nothing is resolved until it is asked for."""

    values: Mapping[str, Value] = field(default_factory=dict)
    is_insecure_allowed: bool = False
    home: Path | None = field(default=None, repr=False)
    build_missing: Callable[[], MissingSettingError] | None = field(default=None, repr=False, compare=False)

    @property
    def bootstrap_servers(self) -> str | None:
        """The addresses to start from, or None where none are known."""
        value = self.values.get("bootstrap.servers")
        return None if value is None else value.reveal()

    def client_config(self) -> dict[str, str]:
        """The settings for librdkafka with secrets revealed. Only for the client: never print or log it."""
        if not self.bootstrap_servers:
            if self.build_missing is not None:
                raise self.build_missing()
            raise MissingSettingError("kafka.bootstrap.servers is needed and not set")
        revealed = {key: self._reveal(key, value) for key, value in self.values.items()}
        origins = {key: str(value.origin) for key, value in self.values.items()}
        # Once more, now that references are resolved: one of them may have named the protocol.
        check_kafka_transport(revealed, origins=origins, is_allowed=self.is_insecure_allowed)
        return build_client_config(revealed, origins=origins)

    def _reveal(self, key: str, value: Value) -> str:
        text = value.reveal()
        if key in PATH_KEYS and text and text != PROBE:
            return str(expand_path(text, folder=value.folder, home=self.home))
        return text


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """How seamark reaches a database that connectors reach by `jdbc_url`."""

    name: str
    jdbc_url: str
    dsn: Secret

    def serves(self, url: str) -> bool:
        """Whether a connector's `connection.url` leads to this database: the same up to its parameters."""
        return url.partition("?")[0].rstrip("/") == self.jdbc_url.rstrip("/")


@dataclass(frozen=True, slots=True)
class LakeSettings:
    """Where a lake is. Without keys those of the machine are taken."""

    name: str
    url: str
    endpoint: str = ""
    region: str = ""
    access_key: Secret | None = None
    secret_key: Secret | None = None


@dataclass(frozen=True, slots=True)
class ConnectSettings:
    """How to reach one Connect cluster, and what its REST API does not tell.

    None means that neither the context nor the worker's file says it. `offsets_file` is the file
    of a standalone worker. `consumer_group_id` is a group that all sinks of the cluster share.
    `known_as` is the context's name for the cluster, where `name` is the one that another user's plan uses.
    """

    name: str
    urls: tuple[str, ...]
    username: str | None = None
    password: Secret | None = None
    ca_file: Path | None = None
    verify: bool = True
    group_id: str | None = None
    offsets_topic: str | None = None
    config_topic: str | None = None
    status_topic: str | None = None
    exactly_once: bool | None = None
    consumer_group_id: str | None = None
    worker_config: Path | None = None
    offsets_file: Path | None = None
    known_as: str = ""
