"""A broker and a standalone Spark of this tier's own, and a session that retries tasks as a cluster would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from seamark.devstack import Stack, StackSpec, load_stack, start_stack
from seamark.spark import open_session
from seamark.spark.sessions import active_session
from tests.spark.kafka_side import KafkaSide

ROOT = Path(__file__).parents[2]
# The Python of the environment, without the environment.
BARE = sys._base_executable
# Delta's own reader checks the tables that seamark writes.
DELTA_CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
SPARK = StackSpec(brokers=1, workers=1, spark=True, spark_workers=2, postgres=True, s3=True)


def pytest_collection_modifyitems(items):
    """The net below the waits is wider here: on a busy machine a session takes minutes to start."""
    for item in items:
        if "tests/spark/" in item.nodeid:
            item.add_marker(pytest.mark.timeout(2400))


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """The stack that `SEAMARK_DEVSTACK` names, if it has Spark; else one of this run's own."""
    if file := os.environ.get("SEAMARK_DEVSTACK"):
        found = load_stack(file)
        assert found.spark, f"the stack of {file} has no Spark: devstack up --spark"
        yield found
        return
    with start_stack(SPARK, name="spark") as started:
        yield started


@pytest.fixture(scope="session")
def spark(stack, tmp_path_factory):
    """Two slots on this machine; a task is tried four times, which `local[2]` does not do."""
    events = tmp_path_factory.mktemp("events")
    # Tasks import the planted faults from here.
    os.environ["PYTHONPATH"] = f"{ROOT}{os.pathsep}{ROOT / 'src'}"
    session = open_session(
        "local[2,4]",
        jars=stack.spark.jars,
        conf={
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "1g",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": events.as_uri(),
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.compress": "false",
            # For those who read lakes with Delta's own reader.
            **DELTA_CONF,
        },
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def active(request):
    """Make the shared session the active one: a test with a session of its own leaves that one active in this thread.

    Spark looks the name of a Python data source up in the active session.
    """
    if "spark" not in request.fixturenames:
        yield
        return
    with active_session(request.getfixturevalue("spark")):
        yield


@pytest.fixture(scope="session")
def pack(tmp_path_factory, stack):
    """What `seamark spark pack` gives, as programs get it."""
    folder = tmp_path_factory.mktemp("pack")
    command = [sys.executable, "-m", "seamark.cli", "spark", "pack", "--dir", str(folder), "-o", "json"]
    done = subprocess.run(
        [*command, "--jars", stack.spark.jars], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def kafka(stack) -> Iterator[KafkaSide]:
    """Topics of one test, and what is in them."""
    with KafkaSide(stack.kafka.bootstrap_servers) as side:
        yield side


@pytest.fixture
def save(kafka):
    """Write a frame to a topic with the sink."""

    def write(frame, topic, **options):
        named = {"topic": topic, **{key.replace("__", "."): value for key, value in options.items()}}
        writer = frame.write.format(named.pop("format", "seamark.kafka")).mode(named.pop("mode", "append"))
        for key, value in {"kafka.bootstrap.servers": kafka.servers, "control.topic": kafka.control, **named}.items():
            writer = writer if value is None else writer.option(key, value)
        writer.save()

    return write
