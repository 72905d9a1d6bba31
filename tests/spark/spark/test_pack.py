"""The archive: executors whose Python has nothing installed write with it, submitted as the command says."""

from __future__ import annotations

import json
import subprocess
import tarfile
from pathlib import Path

from seamark.devstack.servers.spark import find_spark
from tests.spark.conftest import BARE
from tests.spark.kafka_side import numbers

ROWS = 1000
QUIET = {
    "spark.ui.enabled": "false",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def test_archive_holds_what_executors_need_and_no_spark(pack):
    names = {package.split("==")[0] for package in pack["packages"]}
    assert {"seamark", "confluent-kafka", "pyarrow", "psycopg", "psycopg-binary"} <= names
    assert "pyspark" not in names
    with tarfile.open(pack["archive"]) as archive:
        files = archive.getnames()
    assert {"seamark/kafka_sink/spark.py", "pyspark_seamark/__init__.py", "pyarrow/__init__.py"} <= set(files)
    assert not [file for file in files if file.startswith(("/", "..")) or file.endswith(".pyc")]
    assert len(pack["jars"]) == 63


def test_executors_with_a_bare_python_write_by_the_archive(pack, stack, kafka, tmp_path):
    found = (
        "import importlib.util as u; print([n for n in ('seamark', 'confluent_kafka', 'pyarrow') if u.find_spec(n)])"
    )
    bare = subprocess.run([BARE, "-c", found], env={}, capture_output=True, text=True, timeout=30, check=True)
    assert bare.stdout.strip() == "[]"
    # The driver's machine unpacks it too; executors get it from the driver.
    with tarfile.open(pack["archive"]) as archive:
        archive.extractall(tmp_path / "here", filter="data")
    topic = kafka.topic()
    home = find_spark()
    options = [word for item in pack["items"] if item["option"] != "--jars" for word in (item["option"], item["value"])]
    confs = [word for key, value in QUIET.items() for word in ("--conf", f"{key}={value}")]
    job = [str(Path(__file__).with_name("packed_job.py")), kafka.servers, kafka.control, topic, str(ROWS)]
    done = subprocess.run(
        ["bash", str(home / "bin" / "spark-submit"), "--master", stack.spark.master, *options, *confs, *job],
        env={
            "PATH": "/usr/bin:/bin",
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": BARE,
            "PYTHONPATH": str(tmp_path / "here"),
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("HOMES ")]
    for *modules, python in json.loads(line.removeprefix("HOMES ")):
        assert all("/seamark-env/" in module and str(tmp_path) not in module for module in modules)
        assert Path(python).resolve() == Path(BARE).resolve()
    assert kafka.count(topic) == numbers(ROWS)
