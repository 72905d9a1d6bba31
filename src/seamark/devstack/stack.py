"""A running stack: every endpoint, process, log and folder, stored as one JSON file."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seamark.errors import DevstackError, UsageError

KAFKA_VERSION = "4.3.1"
SPARK_VERSION = "4.2.0"


@dataclass(frozen=True, slots=True)
class StackSpec:
    """The servers to start. Each Connect version is a separate Connect cluster, on the same brokers."""

    brokers: int = 1
    workers: int = 1
    connect_versions: tuple[str, ...] = (KAFKA_VERSION,)
    standalone: bool = False
    postgres: bool = False
    s3: bool = False
    # A standalone Spark master and workers, which start executors as separate processes. Each worker has its own host,
    # 127.0.0.N: Spark starts no speculative copy of a task on the host that runs it.
    spark: bool = False
    spark_workers: int = 1
    exactly_once: bool = False
    # Brokers with authentication and ACLs on a second listener; clients without a user have all permissions.
    authorizer: bool = False
    # A proxy before each worker's REST API, for network faults.
    toxiproxy: bool = False
    # A proxy before a second listener of each broker: its clients get only addresses of proxies.
    broker_doors: bool = False
    # Proxies before a third listener of each broker, which only the last worker of each Connect cluster uses: that
    # worker can be partitioned from Kafka while all others aren't.
    proxied_worker: bool = False
    # The JVM's second compiler takes twice the CPU of a start (34 s against 18 s for five JVMs here) and pays off only
    # in long runs: tests run without it, benchmarks enable it.
    full_jit: bool = False

    def __post_init__(self) -> None:
        """Reject invalid counts."""
        if not 1 <= self.brokers <= 9:
            raise UsageError(f"invalid value {self.brokers} for --brokers: expected 1 to 9", hint="pass --brokers 3")
        if not 0 <= self.workers <= 9:
            raise UsageError(f"invalid value {self.workers} for --workers: expected 0 to 9", hint="pass --workers 2")
        if self.proxied_worker and self.workers < 1:
            raise UsageError("--proxied-worker needs at least one worker", hint="pass --workers 2 --proxied-worker")
        if not 1 <= self.spark_workers <= 9:
            raise UsageError(
                f"invalid value {self.spark_workers} for --spark-workers: expected 1 to 9",
                hint="pass --spark-workers 2",
            )

    @property
    def has_proxies(self) -> bool:
        """Return whether Toxiproxy is part of the stack."""
        return self.toxiproxy or self.broker_doors or self.proxied_worker

    def clusters(self) -> dict[str, str]:
        """Return Connect cluster names and their versions: the first is "connect", others have the version."""
        if not self.workers:
            return {}
        first, *others = dict.fromkeys(self.connect_versions)
        return {"connect": first} | {f"connect-{v.replace('.', '-')}": v for v in others}

    def to_json(self) -> str:
        """Return the spec as one line of JSON, for the supervisor's command line."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> StackSpec:
        """Parse the output of `to_json`."""
        fields = json.loads(text)
        return cls(**(fields | {"connect_versions": tuple(fields["connect_versions"])}))


FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """One server process. `pid` is its newest process; it changes with a restart."""

    name: str
    kind: str
    pid: int
    port: int
    log: str
    data: str
    version: str = ""


@dataclass(frozen=True, slots=True)
class KafkaEndpoint:
    """The brokers. `libs` contains the jars, including those of Kafka's own tools.

    With an authorizer, `login_servers` are the addresses at which `login_user` has only the permissions of its ACLs.
    `door_servers` are the proxies before the brokers, if there are any; each is named after its broker.
    `worker_servers` are those of the proxied worker, named `worker-broker-1` and so on.
    """

    bootstrap_servers: str
    cluster_id: str
    version: str
    libs: str
    login_servers: str = ""
    login_user: str = ""
    login_password: str = ""
    door_servers: str = ""
    worker_servers: str = ""


@dataclass(frozen=True, slots=True)
class ConnectEndpoint:
    """One Connect cluster, or the standalone worker (then `offsets_file` is set)."""

    version: str
    urls: tuple[str, ...]
    worker_config: str
    group_id: str = ""
    offsets_topic: str = ""
    config_topic: str = ""
    status_topic: str = ""
    offsets_file: str = ""
    exactly_once: bool = False
    plugins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PostgresEndpoint:
    """The database server. Each stack has a new password."""

    host: str
    port: int
    user: str
    password: str
    database: str

    @property
    def dsn(self) -> str:
        """Return a libpq connection string."""
        return f"host={self.host} port={self.port} user={self.user} password={self.password} dbname={self.database}"


@dataclass(frozen=True, slots=True)
class S3Endpoint:
    """The object store. `data` is its folder: a bucket is a folder there."""

    endpoint: str
    access_key: str
    secret_key: str
    region: str
    data: str


@dataclass(frozen=True, slots=True)
class ToxiproxyEndpoint:
    """The proxy before the workers: its HTTP API, and each worker's proxy by the worker's name."""

    api: str
    doors: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SparkEndpoint:
    """The standalone Spark cluster: the master's URL and web UI. `jars` has what sessions need beside the wheel."""

    master: str
    ui: str
    version: str
    jars: str


@dataclass(frozen=True, slots=True)
class Stack:
    """Everything that is needed to use the running servers."""

    name: str
    folder: str
    supervisor_pid: int
    kafka: KafkaEndpoint
    context_file: str
    context: str = "dev"
    connect: Mapping[str, ConnectEndpoint] = field(default_factory=dict)
    standalone: ConnectEndpoint | None = None
    postgres: PostgresEndpoint | None = None
    s3: S3Endpoint | None = None
    toxiproxy: ToxiproxyEndpoint | None = None
    spark: SparkEndpoint | None = None
    servers: tuple[ServerEntry, ...] = ()

    def server(self, name: str) -> ServerEntry:
        """Return the server of that name."""
        for entry in self.servers:
            if entry.name == name:
                return entry
        known = ", ".join(entry.name for entry in self.servers)
        raise DevstackError(f"the stack has no server {name!r}", hint=f"use one of: {known}")


def write_stack(stack: Stack, path: Path) -> None:
    """Write the stack file atomically, readable by its owner only, because it contains passwords."""
    body = {"format_version": FORMAT_VERSION, **dataclasses.asdict(stack)}
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".new")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(body, file, indent=2)
        file.write("\n")
    beside.replace(path)


def read_stack(path: Path) -> Stack:
    """Read a stack file."""
    try:
        body: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        raise DevstackError(
            f"no stack file at {path}", hint="start a stack: python -m seamark.devstack up --postgres --s3"
        ) from None
    except ValueError as error:
        raise DevstackError(f"{path} is not a stack file", cause=str(error)) from None
    if body.pop("format_version", None) != FORMAT_VERSION:
        raise DevstackError(
            f"{path} was written by another version of seamark",
            hint="stop it with that version: python -m seamark.devstack down",
        )
    return Stack(
        **body
        | {
            "kafka": KafkaEndpoint(**body["kafka"]),
            "connect": {name: _connect(entry) for name, entry in body["connect"].items()},
            "standalone": _connect(body["standalone"]) if body["standalone"] else None,
            "postgres": PostgresEndpoint(**body["postgres"]) if body["postgres"] else None,
            "s3": S3Endpoint(**body["s3"]) if body["s3"] else None,
            "toxiproxy": ToxiproxyEndpoint(**body["toxiproxy"]) if body.get("toxiproxy") else None,
            "spark": SparkEndpoint(**body["spark"]) if body.get("spark") else None,
            "servers": tuple(ServerEntry(**entry) for entry in body["servers"]),
        }
    )


def _connect(entry: Mapping[str, Any]) -> ConnectEndpoint:
    return ConnectEndpoint(**{**entry, "urls": tuple(entry["urls"]), "plugins": tuple(entry["plugins"])})
