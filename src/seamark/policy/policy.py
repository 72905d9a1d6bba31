"""What the connectors of a context may do to the machine they run on.

A connector's config is code for the worker: it names classes, files, addresses and drivers. Who writes a spec is not
always who answers for the workers, so each context says what a config may name. What it does not say is the default
here: enough for ordinary connectors, and closed for what has been an attack before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

DEFAULT_WORD = "default"
"""In a list of a policy it stands for the built-in list, so that one can add to it."""

# Speed and size of the Kafka clients; nothing that loads a class, opens a file or changes the login.
_ANY_CLIENT = (
    "client.dns.lookup",
    "client.id",
    "client.rack",
    "connections.max.idle.ms",
    "default.api.timeout.ms",
    "enable.metrics.push",
    "metadata.*",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "receive.buffer.bytes",
    "reconnect.backoff.*",
    "request.timeout.ms",
    "retries",
    "retry.backoff.*",
    "send.buffer.bytes",
    "socket.connection.setup.timeout.*",
)
_PRODUCER = (
    "acks",
    "batch.size",
    "buffer.memory",
    "compression.*",
    "delivery.timeout.ms",
    "enable.idempotence",
    "linger.ms",
    "max.block.ms",
    "max.in.flight.requests.per.connection",
    "max.request.size",
    "partitioner.adaptive.partitioning.enable",
    "partitioner.availability.timeout.ms",
    "partitioner.class",
    "partitioner.ignore.keys",
    "transaction.timeout.ms",
)
_CONSUMER = (
    "allow.auto.create.topics",
    "auto.offset.reset",
    "check.crcs",
    "exclude.internal.topics",
    "fetch.*",
    "group.id",
    "group.instance.id",
    "heartbeat.interval.ms",
    "isolation.level",
    "max.partition.fetch.bytes",
    "max.poll.*",
    "partition.assignment.strategy",
    "session.timeout.ms",
)
_CLIENT_OVERRIDES = (
    *(f"*.override.{key}" for key in _ANY_CLIENT),
    *(f"producer.override.{key}" for key in _PRODUCER),
    *(f"consumer.override.{key}" for key in _CONSUMER),
)
# Drivers that talk to a server. What opens files or runs scripts by its URL (h2, sqlite, derby, hsqldb) is not here.
_JDBC_URLS = tuple(
    f"jdbc:{name}:"
    for name in (
        *("as400", "clickhouse", "cloudspanner", "db2", "exa", "informix-sqli", "jtds:sqlserver", "mariadb", "mysql"),
        *("oracle:thin", "postgresql", "redshift", "sap", "singlestore", "snowflake", "sqlserver", "sybase:tds"),
        *("trino", "vertica"),
    )
)
_CONFIG_PROVIDERS = (
    *("aws", "azure", "configmaps", "dir", "directory", "env", "file", "gcp", "keyvault"),
    *("secretManager", "secretmanager", "secrets", "secretsManager", "secretsmanager", "vault"),
)
# Where images, operators and orchestrators put the secrets that connectors are meant to have.
_PROVIDER_PATHS = (
    "/etc/kafka/**",
    "/etc/kafka-connect/**",
    "/mnt/secrets/**",
    "/opt/kafka/external-configuration/**",
    "/run/secrets/**",
    "/var/run/secrets/**",
    "/vault/secrets/**",
)


@dataclass(frozen=True, slots=True)
class Policy:
    """What configs may name. Lists hold patterns; docs/reference/policy.md says of each what it matches."""

    connector_classes: tuple[str, ...] = ("*",)
    plugin_classes: tuple[str, ...] = ("*",)
    client_overrides: tuple[str, ...] = field(default=_CLIENT_OVERRIDES, repr=False)
    client_classes: tuple[str, ...] = ("org.apache.kafka.clients.consumer.*", "org.apache.kafka.clients.producer.*")
    login_modules: tuple[str, ...] = (
        "org.apache.kafka.common.security.plain.PlainLoginModule",
        "org.apache.kafka.common.security.scram.ScramLoginModule",
    )
    oauth_urls: tuple[str, ...] = ()
    config_providers: tuple[str, ...] = _CONFIG_PROVIDERS
    provider_paths: tuple[str, ...] = _PROVIDER_PATHS
    environment: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    jdbc_urls: tuple[str, ...] = _JDBC_URLS
    jdbc_parameters: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    scripts: bool = False
    jndi: bool = False
    # Whether spec files may be Python programs without being asked each time. It says nothing about configs.
    python: bool = False


DEFAULT_POLICY = Policy()
LIST_KEYS = tuple(found.name for found in fields(Policy) if isinstance(getattr(DEFAULT_POLICY, found.name), tuple))
FLAG_KEYS = tuple(found.name for found in fields(Policy) if found.name not in LIST_KEYS)


def build_policy(given: Mapping[str, tuple[str, ...] | bool], *, base: Policy = DEFAULT_POLICY) -> Policy:
    """Return `base` with the given keys. A list replaces the previous one; `default` in it adds to the built-in one."""
    values: dict[str, tuple[str, ...] | bool] = {found.name: getattr(base, found.name) for found in fields(Policy)}
    for key, value in given.items():
        values[key] = _fill(key, value) if isinstance(value, tuple) else value
    return Policy(**values)  # type: ignore[arg-type]  # the keys and their kinds are those of the fields


def _fill(key: str, items: tuple[str, ...]) -> tuple[str, ...]:
    own: tuple[str, ...] = getattr(DEFAULT_POLICY, key)
    return tuple(dict.fromkeys(part for item in items for part in (own if item == DEFAULT_WORD else (item,))))
