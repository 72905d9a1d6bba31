"""The stack file."""

from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace

import pytest

from seamark.devstack import (
    ConnectEndpoint,
    KafkaEndpoint,
    PostgresEndpoint,
    S3Endpoint,
    ServerEntry,
    SparkEndpoint,
    Stack,
    ToxiproxyEndpoint,
)
from seamark.devstack.command import build_exports
from seamark.devstack.java import PluginFolder
from seamark.devstack.process import PortReservation
from seamark.devstack.servers import connect, kafka, spark
from seamark.devstack.servers.kafka import new_cluster_id
from seamark.devstack.servers.toxiproxy import Doors
from seamark.devstack.stack import read_stack, write_stack
from seamark.errors import DevstackError

STACK = Stack(
    name="t",
    folder="/nowhere",
    supervisor_pid=1,
    kafka=KafkaEndpoint("127.0.0.1:1", cluster_id="c", version="4.3.1", libs="/libs"),
    context_file="/nowhere/seamark.yaml",
    connect={"connect": ConnectEndpoint("4.3.1", urls=("http://a", "http://b"), worker_config="w", plugins=("jdbc",))},
    standalone=ConnectEndpoint("4.3.1", urls=("http://c",), worker_config="w", offsets_file="o"),
    postgres=PostgresEndpoint("127.0.0.1", port=2, user="u", password="p", database="d"),
    s3=S3Endpoint("http://d", access_key="k", secret_key="s", region="r", data="/d"),
    spark=SparkEndpoint("spark://127.0.0.1:3", ui="http://f", version="4.2.0", jars="/jars"),
    toxiproxy=ToxiproxyEndpoint("http://e", doors={"worker-1": "http://a"}),
    servers=(ServerEntry("broker-1", kind="broker", pid=9, port=1, log="l", data="d", version="4.3.1"),),
)


def test_stack_file_gives_back_what_was_written(tmp_path):
    file = tmp_path / "deep" / "stack.json"
    write_stack(STACK, file)
    assert read_stack(file) == STACK


def test_file_of_a_stack_without_doors_is_read(tmp_path):
    file = tmp_path / "stack.json"
    write_stack(STACK, file)
    older = {key: value for key, value in json.loads(file.read_text()).items() if key != "toxiproxy"}
    file.write_text(json.dumps(older))
    assert read_stack(file).toxiproxy is None


def test_every_worker_has_a_door_of_its_own(tmp_path):
    (tmp_path / "logs").mkdir()
    doors = Doors(PortReservation())
    opened = {name: doors.open(name, port) for name, port in (("worker-1", 15001), ("worker-2", 15002))}
    endpoint, server = doors.build_server(folder=tmp_path, program=tmp_path / "server")
    told = json.loads((server.data / "doors.json").read_text())
    assert [(one["name"], one["upstream"]) for one in told] == [
        ("worker-1", "127.0.0.1:15001"),
        ("worker-2", "127.0.0.1:15002"),
    ]
    assert endpoint.doors == {name: f"http://127.0.0.1:{port}" for name, port in opened.items()}
    assert len({*opened.values(), server.port}) == 3


def read_properties(path):
    return dict(line.split("=", 1) for line in path.read_text().splitlines() if "=" in line)


def test_only_the_last_worker_reaches_the_brokers_through_proxies(tmp_path, monkeypatch):
    (tmp_path / "logs").mkdir()
    monkeypatch.setattr(kafka, "_format", lambda *_, **__: None)
    ports = PortReservation()
    doors = Doors(ports)
    endpoint, brokers = kafka.build_brokers(
        2, libs=tmp_path, folder=tmp_path, ports=ports, full_jit=False, doors=doors, worker_doors=doors
    )
    told = [read_properties(broker.data / "broker.properties") for broker in brokers]
    worker_servers = ",".join(find_advertised(one, "WORKER") for one in told)
    assert endpoint.worker_servers == worker_servers
    assert endpoint.door_servers == ",".join(find_advertised(one, "DOOR") for one in told)
    plugins = PluginFolder(tmp_path, names=(), missing=(), has_manifests=True)
    _, workers = connect.build_cluster(
        "connect",
        version="4.3.1",
        workers=2,
        kafka=endpoint,
        libs=tmp_path,
        plugins=plugins,
        folder=tmp_path,
        ports=ports,
        exactly_once=False,
        full_jit=False,
    )
    used = [read_properties(worker.data / "worker.properties")["bootstrap.servers"] for worker in workers]
    assert used == [endpoint.bootstrap_servers, worker_servers]
    proxies, _ = doors.build_server(folder=tmp_path, program=tmp_path / "server")
    assert list(proxies.doors) == ["broker-1", "broker-2", "worker-broker-1", "worker-broker-2"]


def find_advertised(properties, listener):
    """The address that clients of a listener are told."""
    told = dict(one.split("://") for one in properties["advertised.listeners"].split(","))
    return told[listener]


def test_stack_file_is_its_owners_only(tmp_path):
    file = tmp_path / "stack.json"
    write_stack(STACK, file)
    assert file.stat().st_mode & 0o777 == 0o600


def test_missing_file_says_how_to_start(tmp_path):
    with pytest.raises(DevstackError, match="no stack file") as caught:
        read_stack(tmp_path / "none.json")
    assert "devstack up" in caught.value.hint


def test_other_format_is_refused(tmp_path):
    file = tmp_path / "stack.json"
    write_stack(STACK, file)
    file.write_text(json.dumps(json.loads(file.read_text()) | {"format_version": 2}))
    with pytest.raises(DevstackError, match="another version"):
        read_stack(file)


def test_unknown_server_names_the_known_ones():
    with pytest.raises(DevstackError) as caught:
        STACK.server("broker-7")
    assert "broker-1" in caught.value.hint


def test_no_id_looks_like_an_option():
    assert not any(new_cluster_id().startswith("-") for _ in range(2000))


def test_exports_name_spark_where_the_stack_has_it(tmp_path):
    said = build_exports(STACK, tmp_path / "a b.json")
    assert "SEAMARK_SPARK_MASTER=spark://127.0.0.1:3 SEAMARK_SPARK_JARS=/jars" in said
    assert f"SEAMARK_DEVSTACK='{tmp_path}/a b.json'" in said
    assert "SPARK" not in build_exports(dataclasses.replace(STACK, spark=None), tmp_path / "s.json")


def test_file_of_a_stack_without_spark_is_read(tmp_path):
    file = tmp_path / "stack.json"
    write_stack(STACK, file)
    older = {key: value for key, value in json.loads(file.read_text()).items() if key != "spark"}
    file.write_text(json.dumps(older))
    assert read_stack(file).spark is None


def test_missing_pyspark_says_what_to_install(monkeypatch):
    monkeypatch.setattr(spark, "find_spec", lambda name: None)
    with pytest.raises(DevstackError, match="pyspark is not installed") as caught:
        spark.find_spark()
    assert "'.[spark]'" in caught.value.hint


def test_another_pyspark_than_the_jars_are_for_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(spark, "find_spec", lambda name: SimpleNamespace(origin=str(tmp_path / "__init__.py")))
    monkeypatch.setattr(spark, "version", lambda name: "4.3.0")
    with pytest.raises(DevstackError, match=r"4\.3\.0") as caught:
        spark.find_spark()
    assert "4.2.0" in caught.value.hint
    monkeypatch.setattr(spark, "version", lambda name: "4.2.0")
    assert spark.find_spark() == tmp_path
