"""Turn a spec into servers: write their files, reserve their ports, and build the stack."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from seamark.devstack.downloads import connect_jars, kafka_jars, spark_jars
from seamark.devstack.java import PluginFolder, build_plugins, fetch_plugins, write_properties
from seamark.devstack.process import PortReservation, Server
from seamark.devstack.servers.connect import build_cluster, build_standalone
from seamark.devstack.servers.kafka import build_brokers
from seamark.devstack.servers.postgres import build_postgres, find_programs
from seamark.devstack.servers.s3 import LAKE_BUCKET, build_s3, read_gateway
from seamark.devstack.servers.spark import build_spark, find_spark
from seamark.devstack.servers.toxiproxy import Doors, read_toxiproxy
from seamark.devstack.stack import ConnectEndpoint, KafkaEndpoint, PostgresEndpoint, S3Endpoint, Stack, StackSpec


@dataclass(frozen=True, slots=True)
class StackLayout:
    """The stack to be started, its servers in the order of their start, and what is not available."""

    stack: Stack
    servers: tuple[Server, ...]
    notes: tuple[str, ...]


def fetch_parts(spec: StackSpec) -> None:
    """Download everything the spec needs into the cache. This is the slow part of a first start."""
    kafka_jars()
    for version in spec.clusters().values():
        connect_jars(version)
    fetch_plugins(_find_connectors(spec))
    if spec.postgres:
        find_programs()
    if spec.s3:
        read_gateway()
    if spec.has_proxies:
        read_toxiproxy()
    if spec.spark:
        find_spark()
        spark_jars()


def build_layout(
    spec: StackSpec, *, name: str, folder: Path, supervisor_pid: int, ports: PortReservation
) -> StackLayout:
    """Write every server's files below a folder."""
    (folder / "logs").mkdir()
    doors = Doors(ports) if spec.has_proxies else None
    kafka, servers = build_brokers(
        spec.brokers,
        libs=kafka_jars(),
        folder=folder,
        ports=ports,
        full_jit=spec.full_jit,
        authorizer=spec.authorizer,
        doors=doors if spec.broker_doors else None,
        worker_doors=doors if spec.proxied_worker else None,
    )
    plugins = build_plugins(folder / "plugins", wanted=_find_connectors(spec))
    postgres = s3 = None
    if spec.postgres:
        postgres, server = build_postgres(folder=folder, ports=ports)
        servers.append(server)
    if spec.s3:
        s3, server = build_s3(folder=folder, ports=ports, program=read_gateway())
        servers.append(server)
    clusters: dict[str, ConnectEndpoint] = {}
    for cluster, version in spec.clusters().items():
        clusters[cluster], workers = build_cluster(
            cluster,
            version=version,
            workers=spec.workers,
            kafka=kafka,
            libs=connect_jars(version),
            plugins=plugins,
            folder=folder,
            ports=ports,
            exactly_once=spec.exactly_once,
            full_jit=spec.full_jit,
            doors=doors if spec.toxiproxy else None,
        )
        servers += workers
    toxiproxy = None
    if doors is not None:
        toxiproxy, server = doors.build_server(folder=folder, program=read_toxiproxy())
        servers.append(server)
    spark = None
    if spec.spark:
        spark, started = build_spark(
            spec.spark_workers,
            home=find_spark(),
            jars=spark_jars(),
            folder=folder,
            ports=ports,
            full_jit=spec.full_jit,
        )
        servers += started
    standalone = _standalone(spec, kafka=kafka, plugins=plugins, folder=folder, ports=ports)
    if standalone:
        servers.append(standalone[1])
    _write_secrets(folder / "secrets", postgres=postgres, s3=s3)
    context_file = folder / "seamark.yaml"
    context_file.write_text(_context(kafka, clusters, folder=folder) + _databases(postgres) + _lakes(s3))
    stack = Stack(
        name=name,
        folder=str(folder),
        supervisor_pid=supervisor_pid,
        kafka=kafka,
        context_file=str(context_file),
        connect=clusters,
        standalone=standalone[0] if standalone else None,
        postgres=postgres,
        s3=s3,
        toxiproxy=toxiproxy,
        spark=spark,
    )
    return StackLayout(stack, servers=tuple(servers), notes=plugins.missing)


def _write_secrets(folder: Path, *, postgres: PostgresEndpoint | None, s3: S3Endpoint | None) -> None:
    # Connect's file provider reads these inside the workers, so that no connector config contains a password.
    folder.mkdir(mode=0o700)
    if postgres:
        known = {"user": postgres.user, "password": postgres.password, "dsn": postgres.dsn}
        write_properties(folder / "postgres.properties", known)
    if s3:
        write_properties(folder / "s3.properties", {"access_key": s3.access_key, "secret_key": s3.secret_key})


def _standalone(
    spec: StackSpec, *, kafka: KafkaEndpoint, plugins: PluginFolder, folder: Path, ports: PortReservation
) -> tuple[ConnectEndpoint, Server] | None:
    if not spec.standalone:
        return None
    version = spec.connect_versions[0]
    return build_standalone(
        version=version,
        kafka=kafka,
        libs=connect_jars(version),
        plugins=plugins,
        folder=folder,
        ports=ports,
        full_jit=spec.full_jit,
    )


def _context(kafka: KafkaEndpoint, clusters: dict[str, ConnectEndpoint], *, folder: Path) -> str:
    lines = [
        "# The seamark context of a devstack. It is removed with the stack.",
        "current: dev",
        "contexts:",
        "  dev:",
        "    kafka:",
        f"      bootstrap.servers: {kafka.bootstrap_servers}",
        # Connectors for files, and secrets in the stack's own folder: no real context should allow these.
        "    policy:",
        "      files: [/**]",
        f"      provider_paths: [default, {folder}/secrets/**]",
    ]
    if clusters:
        lines.append("    connect:")
    for name, endpoint in clusters.items():
        lines += [
            f"      {name}:",
            f"        urls: [{', '.join(endpoint.urls)}]",
            f"        worker_config: {endpoint.worker_config}",
        ]
    return "\n".join(lines) + "\n"


def _databases(postgres: PostgresEndpoint | None) -> str:
    """Return the databases in which rows are counted, for source lag and for what a move would reprocess."""
    if postgres is None:
        return ""
    url = f"jdbc:postgresql://{postgres.host}:{postgres.port}/{postgres.database}"
    lines = (
        "    databases:",
        "      game:",
        f"        jdbc_url: {url}",
        "        dsn: secret://file/secrets/postgres.properties#dsn",
    )
    return "\n".join(lines) + "\n"


def _lakes(s3: S3Endpoint | None) -> str:
    """Return the lake in which topics are stored as Delta tables."""
    if s3 is None:
        return ""
    lines = (
        "    lakes:",
        "      lake:",
        f"        url: s3://{LAKE_BUCKET}",
        f"        endpoint: {s3.endpoint}",
        "        access_key: secret://file/secrets/s3.properties#access_key",
        "        secret_key: secret://file/secrets/s3.properties#secret_key",
    )
    return "\n".join(lines) + "\n"


def _find_connectors(spec: StackSpec) -> frozenset[str]:
    """Return the connectors that have a server to read from or to write to."""
    return frozenset(kind for kind, is_there in (("jdbc", spec.postgres), ("s3", spec.s3)) if is_there)
