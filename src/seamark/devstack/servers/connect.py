"""Connect workers, distributed and standalone, of any version that has checksums."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from seamark.devstack.java import LOG4J1, LOG4J2, WORKER_HEAP, PluginFolder, java_command, write_properties
from seamark.devstack.process import PortReservation, RunningServer, Server
from seamark.devstack.servers.toxiproxy import Doors
from seamark.devstack.stack import ConnectEndpoint, KafkaEndpoint

_HEALTH_SINCE = (3, 9)


def build_cluster(
    name: str,
    *,
    version: str,
    workers: int,
    kafka: KafkaEndpoint,
    libs: Path,
    plugins: PluginFolder,
    folder: Path,
    ports: PortReservation,
    exactly_once: bool,
    full_jit: bool,
    doors: Doors | None = None,
) -> tuple[ConnectEndpoint, list[Server]]:
    """Write a Connect cluster's files and return how each worker starts."""
    copies = str(min(3, len(kafka.bootstrap_servers.split(","))))
    group = f"seamark-{name}"
    shared = _common(kafka, plugins=plugins, version=version) | {
        "group.id": group,
        "offset.storage.topic": f"{name}-offsets",
        "config.storage.topic": f"{name}-configs",
        "status.storage.topic": f"{name}-status",
        "offset.storage.replication.factor": copies,
        "config.storage.replication.factor": copies,
        "status.storage.replication.factor": copies,
        "offset.storage.partitions": "5",
        "scheduled.rebalance.max.delay.ms": "0",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "1500",
    }
    if exactly_once:
        shared["exactly.once.source.support"] = "enabled"
    servers, urls = [], []
    for number in range(1, workers + 1):
        called, port = f"{_short(name)}worker-{number}", ports.take()
        door = doors.open(called, port) if doors is not None else port
        urls.append(f"http://127.0.0.1:{door}")
        is_proxied = number == workers and bool(kafka.worker_servers)
        server = _worker(
            called,
            main_class="org.apache.kafka.connect.cli.ConnectDistributed",
            config=shared | ({"bootstrap.servers": kafka.worker_servers} if is_proxied else {}),
            version=version,
            libs=libs,
            folder=folder,
            port=port,
            door=door,
            full_jit=full_jit,
        )
        servers.append(server)
    endpoint = ConnectEndpoint(
        version=version,
        urls=tuple(urls),
        worker_config=str(servers[0].data / "worker.properties"),
        group_id=group,
        offsets_topic=shared["offset.storage.topic"],
        config_topic=shared["config.storage.topic"],
        status_topic=shared["status.storage.topic"],
        exactly_once=exactly_once,
        plugins=plugins.names,
    )
    return endpoint, servers


def build_standalone(
    *,
    version: str,
    kafka: KafkaEndpoint,
    libs: Path,
    plugins: PluginFolder,
    folder: Path,
    ports: PortReservation,
    full_jit: bool,
) -> tuple[ConnectEndpoint, Server]:
    """Write a standalone worker's files and return how it starts."""
    offsets_file = folder / "standalone" / "connect.offsets"
    config = _common(kafka, plugins=plugins, version=version) | {"offset.storage.file.filename": str(offsets_file)}
    server = _worker(
        "standalone",
        main_class="org.apache.kafka.connect.cli.ConnectStandalone",
        config=config,
        version=version,
        libs=libs,
        folder=folder,
        port=ports.take(),
        full_jit=full_jit,
    )
    endpoint = ConnectEndpoint(
        version=version,
        urls=(f"http://127.0.0.1:{server.port}",),
        worker_config=str(server.data / "worker.properties"),
        offsets_file=str(offsets_file),
        plugins=plugins.names,
    )
    return endpoint, server


def _short(cluster: str) -> str:
    # The first Connect cluster's workers are worker-1, worker-2; others have their version: 3-5-2-worker-1.
    tail = cluster.removeprefix("connect").removeprefix("-")
    return f"{tail}-" if tail else ""


def _common(kafka: KafkaEndpoint, *, plugins: PluginFolder, version: str) -> dict[str, str]:
    config = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
        "offset.flush.interval.ms": "1000",
        "task.shutdown.graceful.timeout.ms": "1000",
        "connector.client.config.override.policy": "All",
        "plugin.path": str(plugins.folder),
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        # The sink's consumer must detect a new topic within the timeout of a test; the default is 5 minutes.
        "consumer.metadata.max.age.ms": "5000",
    }
    if _parse_minor(version) >= (3, 6) and plugins.has_manifests:
        # Scanning every class of every jar takes 25-50 s here; reading the manifests takes 1 s.
        config["plugin.discovery"] = "SERVICE_LOAD"
    return config


def _worker(
    name: str,
    *,
    main_class: str,
    config: dict[str, str],
    version: str,
    libs: Path,
    folder: Path,
    port: int,
    full_jit: bool,
    door: int | None = None,
) -> Server:
    data = folder / name
    data.mkdir()
    write_properties(
        data / "worker.properties",
        config
        | {
            "listeners": f"http://127.0.0.1:{port}",
            "rest.advertised.host.name": "127.0.0.1",
            "rest.advertised.port": str(door or port),
        },
    )
    log_config = data / "log4j.properties"
    log_config.write_text(LOG4J2 if int(version.split(".", maxsplit=1)[0]) >= 4 else LOG4J1)
    command = java_command(
        libs,
        main_class,
        str(data / "worker.properties"),
        heap=WORKER_HEAP,
        log_config=log_config,
        full_jit=full_jit,
    )
    return Server(
        name=name,
        kind="connect",
        command=tuple(command),
        log=folder / "logs" / f"{name}.log",
        data=data,
        port=port,
        version=version,
        # A proxied worker reaches the brokers only through Toxiproxy.
        after=("broker", "toxiproxy"),
        ready_seconds=120,
        is_ready=_has_started,
    )


def _has_started(running: RunningServer) -> bool:
    """Return whether the worker's herder responds.

    `GET /connectors` is answered, with no connectors, before the worker has read its config topic.
    """
    port = running.server.port
    if _parse_minor(running.server.version) >= _HEALTH_SINCE:
        answer = _read_json(port, "/health")
        return answer is not None and answer.get("status") == "healthy"
    # Answered by the herder's thread, with 404. Jetty's own 404 of a worker without resources has no error_code.
    answer = _read_json(port, "/connectors/seamark-readiness-probe")
    return answer is not None and answer.get("error_code") == 404


def _read_json(port: int, path: str) -> dict[str, Any] | None:
    url = f"http://127.0.0.1:{port}{path}"
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            found = json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            try:
                found = json.load(error)
            except (OSError, ValueError):
                return None
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _parse_minor(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])
