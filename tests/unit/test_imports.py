"""Imports follow the contracts, and each contract finds what breaks it."""

from __future__ import annotations

import copy
import shutil
import subprocess
import sys
from pathlib import Path

import grimp
import pytest
from importlinter.api import read_configuration
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.contracts.independence import IndependenceContract
from importlinter.contracts.layers import LayersContract
from importlinter.contracts.protected import ProtectedContract

ROOT = Path(__file__).parents[2]
LINTER = Path(sys.executable).with_name("lint-imports")
TYPES = {
    contract.type_name: contract
    for contract in (ForbiddenContract, IndependenceContract, LayersContract, ProtectedContract)
}
STRATA = "five strata: shells, workflows, resources, engines, foundations"
OFFSETS = "offsets: service > move | restore | repair > write > read > stores | semantics > codec"
COPIES = "copies: service > cutover > verify | run > plan"
# The importing module, what it would import from above and from beside, and the contract that forbids both.
PACKAGES = [
    ("context.files", "connect.api", "report.text", STRATA),
    ("kafka.admin", "changes.step", "connect.api", STRATA),
    ("changes.step", "connectors.read", "kafka_sink.task", STRATA),
    ("topics.service", "offsets.service", "groups.service", STRATA),
    ("pipelines.service", "specs.load", "copies.service", STRATA),
    ("offsets.restore.targets", "offsets.service", "offsets.move.targets", OFFSETS),
    ("offsets.semantics.sinks", "offsets.read.lag", "offsets.stores.topic", OFFSETS),
    ("copies.run.runner", "copies.service", "copies.verify.match", COPIES),
]


@pytest.fixture(scope="module")
def graph():
    """Every import of the package, also those in functions and for annotations."""
    return grimp.build_graph("seamark", include_external_packages=True, cache_dir=None)


@pytest.fixture(scope="module")
def contracts():
    """The contracts of the repository."""
    found = read_configuration(str(ROOT / "pyproject.toml"))
    return [
        TYPES[options["type"]](options["name"], found["session_options"], options)
        for options in found["contracts_options"]
    ]


@pytest.fixture
def plant(graph):
    """Add one import to a copy of the graph."""

    def plant(module, imported):
        planted = copy.deepcopy(graph)
        assert f"seamark.{module}" in planted.modules
        if not imported.startswith("seamark"):
            planted.add_module(imported, is_squashed=True)
        assert imported in planted.modules
        assert not planted.direct_import_exists(importer=f"seamark.{module}", imported=imported)
        planted.add_import(importer=f"seamark.{module}", imported=imported)
        return planted

    return plant


def find_broken(graph, contracts):
    """Return the names of the contracts that a graph breaks."""
    # A check may change the graph that it is given.
    return [found.name for found in contracts if not found.check(copy.deepcopy(graph), verbose=False).kept]


def test_imports_are_kept(graph, contracts):
    assert find_broken(graph, contracts) == []


def test_no_import_is_ignored(graph, contracts):
    assert sum(found.check(copy.deepcopy(graph), verbose=False).ignored_import_count for found in contracts) == 0


@pytest.mark.parametrize(
    ("module", "imported", "contract"),
    [(module, found, contract) for module, *planted, contract in PACKAGES for found in planted],
)
def test_an_import_from_above_or_beside_is_caught(plant, contracts, module, imported, contract):
    assert contract in find_broken(plant(module, f"seamark.{imported}"), contracts)


@pytest.mark.parametrize(
    ("module", "imported"),
    [
        ("core.offsets", "seamark.fleet"),
        ("core.offsets", "httpx2"),
        ("connect.answers", "seamark.kafka"),
        ("report", "seamark.context"),
        ("offsets.codec.codec", "seamark.changes.step"),
        ("offsets.codec.codec", "confluent_kafka"),
        ("offsets.read.lag", "psycopg"),
        ("tables.postgres.counting", "seamark.kafka"),
        ("kafka.admin", "seamark.tables"),
        ("connectors.service", "seamark.topics.service"),
        ("groups.service", "seamark.offsets.service"),
        ("copies.service", "seamark.pipelines.declared"),
        ("pipelines.service", "seamark.tables.delta.table"),
        ("offsets.stores.ledger", "seamark.tables.postgres.ledger"),
        ("doctor.service", "seamark.specs.load"),
        ("kafka_sink.routing", "confluent_kafka"),
        ("kafka_sink.routing", "pyspark"),
        ("kafka.partitioner", "seamark.offsets.codec.codec"),
        ("cli.main", "seamark.offsets.codec.codec"),
        ("fleet", "seamark.cli"),
        ("consumer.assignment", "seamark.fleet"),
        ("consumer.assignment", "psycopg"),
        ("fleet", "seamark.devstack"),
        ("cli.main", "seamark.connect.client"),
        ("cli.main", "seamark.changes.executor"),
        ("changes.step", "seamark.connect.client"),
        ("changes.step", "seamark.fleet"),
        ("changes.environment", "seamark.connect.api"),
        ("changes.environment", "seamark.kafka.api"),
        ("devstack.stack", "seamark.core.offsets"),
        ("kafka_sink.control_reads", "pyspark"),
        ("kafka_sink.control_reads", "seamark.kafka_sink.spark"),
        ("kafka_sink.options", "seamark.offsets.codec.codec"),
        ("kafka_sink.options", "confluent_kafka"),
    ],
)
def test_a_forbidden_import_is_caught(plant, contracts, module, imported):
    assert find_broken(plant(module, imported), contracts) != []


@pytest.mark.parametrize(
    "text",
    [
        "import seamark.groups.service",
        "def read():\n    from seamark.groups.service import Groups\n    return Groups",
        "if TYPE_CHECKING:\n    from seamark.groups.service import Groups",
    ],
    ids=["module", "function", "annotation"],
)
def test_the_linter_finds_an_import_wherever_it_is_written(tmp_path, text):
    shutil.copytree(ROOT / "src" / "seamark", tmp_path / "seamark", ignore=shutil.ignore_patterns("__pycache__"))
    target = tmp_path / "seamark" / "topics" / "service.py"
    target.write_text(f"{target.read_text()}\n{text}\n")
    done = subprocess.run(
        [str(LINTER), "--config", str(ROOT / "pyproject.toml"), "--no-cache"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0, done.stdout
    assert "1 broken" in done.stdout
