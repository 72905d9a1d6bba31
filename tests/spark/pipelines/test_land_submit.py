"""What `seamark pipelines submit` prints, run as it is: bare Pythons, and records become rows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from seamark.devstack.servers.spark import find_spark
from tests.spark.conftest import BARE
from tests.spark.land_stage import open_land_stage

CONF = {
    "spark.ui.enabled": "false",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    "spark.driver.memory": "768m",
    "spark.log.level": "ERROR",
}
ROWS = 900


@pytest.fixture
def desk(stack, kafka, tmp_path):
    """A landing in files, and the environment of a machine that has Spark and no seamark."""
    contexts = {
        "contexts": {
            "dev": {
                "kafka": {"bootstrap.servers": kafka.servers},
                "databases": {"shop": {"jdbc_url": "jdbc:postgresql://db/shop", "dsn": "secret://env/SHOP_DSN"}},
            }
        }
    }
    (tmp_path / "contexts.yaml").write_text(json.dumps(contexts))
    with open_land_stage(stack, kafka) as stage:
        columns = {"part": {"type": "int", "from": "kafka.partition"}, "number": "bigint", "words": "text"}
        spec = {
            "kind": "land",
            "from": {"topic": stage.topic},
            "to": {"database": "shop", "table": stage.name},
            "columns": columns,
        }
        (tmp_path / "pipelines.yaml").write_text(json.dumps({"pipelines": {stage.name: spec}}))
        stage.environ = {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "HOME": str(tmp_path),
            "SPARK_HOME": str(find_spark()),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": BARE,
            "SEAMARK_CONFIG": str(tmp_path / "contexts.yaml"),
            "SHOP_DSN": stage.dsn,
        }
        yield stage


def submit(desk, pack, folder, *argv):
    """What is printed for the landing."""
    command = [sys.executable, "-m", "seamark.cli", "pipelines", "submit", desk.name, "-f", "pipelines.yaml"]
    confs = [word for key, value in CONF.items() for word in ("--conf", f"{key}={value}")]
    done = subprocess.run(
        [*command, "--pack", str(Path(pack["archive"]).parent), *confs, *argv],
        env={**os.environ, **desk.environ},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_printed_line_lands_each_record(desk, pack, stack, tmp_path):
    bare = "import importlib.util as u; print([n for n in ('seamark', 'psycopg', 'pyarrow') if u.find_spec(n)])"
    assert subprocess.run([BARE, "-c", bare], env={}, capture_output=True, text=True, check=True).stdout == "[]\n"
    desk.produce([{"number": number, "words": f"w{number}"} for number in range(ROWS)])
    line = submit(desk, pack, tmp_path, "--master", stack.spark.master, "--jars", stack.spark.jars)
    done = subprocess.run(
        ["bash", "-c", line],
        env=desk.environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-4000:]
    assert desk.read("SELECT count(*), count(DISTINCT number), min(words) FROM {table}") == [(ROWS, ROWS, "w0")]
    assert desk.read_ledger() == desk.read_ends()
    assert f"{ROWS} rows" in said
    assert not [text for text in (line, said) if stack.postgres.password in text]
