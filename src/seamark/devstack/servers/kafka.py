"""Kafka brokers in KRaft mode, each a broker and a controller."""

from __future__ import annotations

import base64
import shutil
import subprocess
import uuid
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from seamark.devstack.java import BROKER_HEAP, LOG4J2, java_command, write_properties
from seamark.devstack.process import PortReservation, Server, answers
from seamark.devstack.servers.toxiproxy import Doors
from seamark.devstack.stack import KAFKA_VERSION, KafkaEndpoint
from seamark.errors import DevstackError

# For servers that run only during a test, on this machine only.
_USER, _PASSWORD = "operator", "operator-of-a-devstack"


def new_cluster_id() -> str:
    """Return a random ID in Kafka's own format. It does not begin with a dash: tools would parse it as an option."""
    while (found := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return found


def build_brokers(
    count: int,
    *,
    libs: Path,
    folder: Path,
    ports: PortReservation,
    full_jit: bool,
    authorizer: bool = False,
    doors: Doors | None = None,
    worker_doors: Doors | None = None,
) -> tuple[KafkaEndpoint, list[Server]]:
    """Write the brokers' files, format their storage, and return how each starts."""
    cluster_id = new_cluster_id()
    listeners = {node: ports.take() for node in range(1, count + 1)}
    controllers = {node: ports.take() for node in range(1, count + 1)}
    voters = ",".join(f"{node}@127.0.0.1:{port}" for node, port in controllers.items())
    logins = {node: ports.take() for node in listeners} if authorizer else {}
    proxied = {
        "DOOR": _open_doors(doors, "broker", nodes=listeners, ports=ports),
        "WORKER": _open_doors(worker_doors, "worker-broker", nodes=listeners, ports=ports),
    }
    servers = []
    for node, port in listeners.items():
        data = folder / f"broker-{node}"
        data.mkdir()
        config = _config(node, port=port, controller=controllers[node], voters=voters, data=data, brokers=count)
        if node in logins:
            config |= _authorize(config, port=logins[node])
        for listener, opened in proxied.items():
            if node in opened:
                config |= _add_listener(config, listener, port=opened[node][0], advertised=opened[node][1])
        write_properties(data / "broker.properties", config)
        (data / "log4j2.properties").write_text(LOG4J2)
        servers.append(_server(node, port=port, data=data, libs=libs, folder=folder, full_jit=full_jit))
    _format(servers, cluster_id=cluster_id, libs=libs)
    bootstrap = ",".join(f"127.0.0.1:{port}" for port in listeners.values())
    endpoint = KafkaEndpoint(bootstrap, cluster_id=cluster_id, version=KAFKA_VERSION, libs=str(libs))
    if logins:
        where = ",".join(f"127.0.0.1:{port}" for port in logins.values())
        endpoint = replace(endpoint, login_servers=where, login_user=_USER, login_password=_PASSWORD)
    proxies = {name: ",".join(f"127.0.0.1:{door}" for _, door in opened.values()) for name, opened in proxied.items()}
    return replace(endpoint, door_servers=proxies["DOOR"], worker_servers=proxies["WORKER"]), servers


def _open_doors(
    doors: Doors | None, prefix: str, *, nodes: Iterable[int], ports: PortReservation
) -> dict[int, tuple[int, int]]:
    """Return by broker its listener port and the port of the proxy before it; none without `doors`."""
    if doors is None:
        return {}
    behind = {node: ports.take() for node in nodes}
    return {node: (port, doors.open(f"{prefix}-{node}", port)) for node, port in behind.items()}


def _add_listener(config: dict[str, str], name: str, *, port: int, advertised: int) -> dict[str, str]:
    """Add a listener with another advertised address."""
    return {
        "listeners": f"{config['listeners']},{name}://127.0.0.1:{port}",
        "advertised.listeners": f"{config['advertised.listeners']},{name}://127.0.0.1:{advertised}",
        "listener.security.protocol.map": f"{config['listener.security.protocol.map']},{name}:PLAINTEXT",
    }


def _server(node: int, *, port: int, data: Path, libs: Path, folder: Path, full_jit: bool) -> Server:
    command = java_command(
        libs,
        "kafka.Kafka",
        str(data / "broker.properties"),
        heap=BROKER_HEAP,
        log_config=data / "log4j2.properties",
        full_jit=full_jit,
    )
    return Server(
        name=f"broker-{node}",
        kind="broker",
        command=tuple(command),
        log=folder / "logs" / f"broker-{node}.log",
        data=data,
        port=port,
        version=KAFKA_VERSION,
        is_ready=lambda running: running.log_says("Kafka Server started") and answers(port),
    )


def _config(node: int, *, port: int, controller: int, voters: str, data: Path, brokers: int) -> dict[str, str]:
    copies = str(min(3, brokers))
    in_sync = str(min(2, brokers))
    return {
        "process.roles": "broker,controller",
        "node.id": str(node),
        "controller.quorum.voters": voters,
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(data / "log"),
        "default.replication.factor": copies,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": copies,
        "offsets.topic.num.partitions": "10",
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": in_sync,
        "transaction.state.log.num.partitions": "10",
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": in_sync,
        "group.initial.rebalance.delay.ms": "0",
        "auto.create.topics.enable": "true",
        # By default no group of the consumer protocol can detect a killed member sooner than after 45 s.
        "group.consumer.min.session.timeout.ms": "6000",
        "group.consumer.min.heartbeat.interval.ms": "1000",
        # A stopped broker must be detected within the timeout of a test; the default of 9 s is a third of most
        # deadlines.
        "broker.session.timeout.ms": "6000",
        "broker.heartbeat.interval.ms": "1000",
    }


def _authorize(config: dict[str, str], *, port: int) -> dict[str, str]:
    """Add a listener with authentication, and ACLs. The workers and the brokers connect without a user."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        "listeners": f"{config['listeners']},LOGIN://127.0.0.1:{port}",
        "advertised.listeners": f"{config['advertised.listeners']},LOGIN://127.0.0.1:{port}",
        "listener.security.protocol.map": f"{config['listener.security.protocol.map']},LOGIN:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": f'{module} required user_{_USER}="{_PASSWORD}";',
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }


def _format(servers: list[Server], *, cluster_id: str, libs: Path) -> None:
    # Each JVM start costs two seconds of both cores, so one node is formatted and the others get a copy: the files
    # differ only in the node's and the folder's ID.
    first, *others = [server.data for server in servers]
    command = java_command(
        libs, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(first / "broker.properties"), heap="256m"
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise DevstackError("could not format the storage of the brokers", cause=(done.stdout + done.stderr)[-1500:])
    for number, data in enumerate(others, start=2):
        shutil.copytree(first / "log", data / "log")
        meta = data / "log" / "meta.properties"
        changed = {"node.id": str(number), "directory.id": new_cluster_id()}
        lines = [
            f"{key}={changed.get(key, value)}" if mark else line
            for line in meta.read_text().splitlines()
            for key, mark, value in [line.partition("=")]
        ]
        meta.write_text("\n".join(lines) + "\n")
