"""A landing in a lake by the command line: planned, run, shown; its offsets moved and undone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from tests.spark.land_stage import TopicStage

ROOT = Path(__file__).parents[3]
# On a busy machine a session alone takes a minute.
RUN_SECONDS = 900


@pytest.fixture
def run(stack, tmp_path):
    context = {
        "journal": "file",
        "journal_folder": str(tmp_path / "journal"),
        "kafka": {"bootstrap.servers": stack.kafka.bootstrap_servers},
        "lakes": {
            "lake": {
                "url": f"s3://lake/{uuid4().hex[:8]}",
                "endpoint": stack.s3.endpoint,
                "access_key": "secret://env/LAKE_ACCESS",
                "secret_key": "secret://env/LAKE_SECRET",
            }
        },
    }
    (tmp_path / "seamark.yaml").write_text(json.dumps({"current": "dev", "contexts": {"dev": context}}))
    environ = {
        **{key: value for key, value in os.environ.items() if not key.startswith("SEAMARK_")},
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        "LAKE_ACCESS": stack.s3.access_key,
        "LAKE_SECRET": stack.s3.secret_key,
        "SEAMARK_CONFIG": str(tmp_path / "seamark.yaml"),
        "SEAMARK_SPARK_JARS": stack.spark.jars,
        "SEAMARK_SPARK_MASTER": "local[2]",
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }

    def command(*argv):
        """Each in a process of its own: what they share is Kafka, the lake and the context."""
        done = subprocess.run(
            [sys.executable, "-m", "seamark.cli", *argv],
            env=environ,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert stack.s3.secret_key not in done.stdout + done.stderr
        return done.stdout

    return command


@pytest.fixture
def stage(kafka):
    return TopicStage(kafka, partitions=2)


@pytest.fixture
def file(stage, tmp_path):
    pipeline = {
        "kind": "land",
        "from": {"topic": stage.topic},
        "to": {"lake": "lake", "table": "raw/events", "date": "at"},
        "columns": {"number": "bigint", "at": "timestamp"},
    }
    path = tmp_path / "pipelines.yaml"
    path.write_text(json.dumps({"pipelines": {stage.name: pipeline}}))
    return str(path)


def read_offsets(run, owner):
    shown = json.loads(run("offsets", "show", owner, "-o", "json"))["offsets"][owner]
    return {one["partition"]["kafka_partition"]: one["offset"]["kafka_offset"] for one in shown}


def test_landing_is_planned_run_moved_and_undone(run, stage, file):
    owner = f"pipeline/{stage.name}"
    stage.produce([{"number": number, "at": f"2026-11-{1 + number % 3:02}T00:00:00Z"} for number in range(100)])
    plan = run("pipelines", "plan", stage.name, "-f", file)
    coordinates = "_topic string, _partition int, _offset bigint, _timestamp timestamp"
    assert f"CREATE TABLE raw/events (number bigint, at timestamp, {coordinates}, event_date date) USING delta" in plan
    assert "lag 100" in plan or "lag 50" in plan
    small = ("--conf", "spark.ui.enabled=false", "--conf", "spark.driver.memory=1g")
    for first in (0, 100, 200):
        run("pipelines", "run", stage.name, "-f", file, *small, "--yes")
        assert read_offsets(run, owner) == {0: 50 + first // 2, 1: 50 + first // 2}
        stage.produce([{"number": number, "at": None} for number in range(first + 100, first + 200)])
    assert json.loads(run("pipelines", "status", stage.name, "-f", file, "-o", "json"))["behind"] == 100
    run("offsets", "move", owner, "--to", "40", "--yes")
    assert read_offsets(run, owner) == {0: 40, 1: 40}
    change = run("journal", "list", "--limit", "1", "-o", "name").strip()
    run("journal", "undo", change, "--yes")
    assert read_offsets(run, owner) == {0: 150, 1: 150}
    shown = json.loads(run("pipelines", "compact", stage.name, "-f", file, "--dry-run", "-o", "json"))
    assert {one["date"]: one["files"] for one in shown["items"]}[""] == 2
    run("pipelines", "compact", stage.name, "-f", file, "--yes")
    shown = json.loads(run("pipelines", "compact", stage.name, "-f", file, "--dry-run", "-o", "json"))
    assert [one["files"] for one in shown["items"]] == [1, 1, 1, 1]
    assert read_offsets(run, owner) == {0: 150, 1: 150}
