"""Imports go one way, and the linter that says so really looks."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINTER = Path(sys.executable).with_name("lint-imports")


def lint(folder):
    """Run the import linter on the package below a folder."""
    return subprocess.run(
        [str(LINTER), "--config", str(ROOT / "pyproject.toml"), "--no-cache"],
        cwd=folder,
        env={"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def package(tmp_path):
    """A copy of the package that a test may spoil."""
    shutil.copytree(ROOT / "src" / "seamark", tmp_path / "seamark", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_imports_are_kept(package):
    done = lint(package)
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout


@pytest.mark.parametrize(
    ("module", "planted"),
    [
        ("core/offsets.py", "import seamark.fleet"),
        ("core/offsets.py", "import httpx2"),
        ("connect/answers.py", "import seamark.kafka"),
        ("report/__init__.py", "import seamark.context"),
        ("offsets/codec/codec.py", "import seamark.changes.step"),
        ("offsets/codec/codec.py", "import confluent_kafka"),
        ("offsets/read/lag.py", "import psycopg"),
        ("tables/postgres/counting.py", "import seamark.kafka"),
        ("kafka/admin.py", "import seamark.tables"),
        ("connectors/service.py", "import seamark.topics.service"),
        ("groups/service.py", "import seamark.offsets.service"),
        ("copies/service.py", "import seamark.pipelines.declared"),
        ("pipelines/service.py", "import seamark.tables.delta.table"),
        ("offsets/stores/ledger.py", "import seamark.tables.postgres.ledger"),
        ("doctor/service.py", "import seamark.specs.load"),
        ("kafka_sink/routing.py", "import confluent_kafka"),
        ("kafka_sink/routing.py", "import pyspark"),
        ("kafka/partitioner.py", "import seamark.offsets.codec.codec"),
        ("cli/main.py", "import seamark.offsets.codec.codec"),
        ("fleet/__init__.py", "import seamark.cli"),
        ("consumer/assignment.py", "import seamark.fleet"),
        ("consumer/assignment.py", "import psycopg"),
        ("fleet/__init__.py", "import seamark.devstack"),
        ("cli/main.py", "import seamark.connect.client"),
        ("cli/main.py", "import seamark.changes.executor"),
        ("changes/step.py", "import seamark.connect.client"),
        ("changes/step.py", "import seamark.fleet"),
        ("devstack/stack.py", "import seamark.core.offsets"),
        ("kafka_sink/control_reads.py", "import pyspark"),
        ("kafka_sink/control_reads.py", "import seamark.kafka_sink.spark"),
        ("kafka_sink/options.py", "import seamark.offsets.codec.codec"),
        ("kafka_sink/options.py", "import confluent_kafka"),
    ],
)
def test_planted_wrong_import_is_caught(package, module, planted):
    target = package / "seamark" / module
    target.write_text(target.read_text() + f"\n{planted}\n")
    done = lint(package)
    assert done.returncode != 0, done.stdout
    assert "BROKEN" in done.stdout
