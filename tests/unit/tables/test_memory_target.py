"""A pipeline target that this module alone defines: found by registration, in files, plans, runs and offsets."""

from __future__ import annotations

import itertools
import json
import pickle
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from importlib.metadata import EntryPoint
from pkgutil import resolve_name
from types import SimpleNamespace

import pytest

from seamark.errors import FencedError, SpecError, UsageError
from seamark.pipelines.progress import BatchLanded
from seamark.pipelines.status import LandState
from seamark.specs.keys import build_schema
from seamark.tables.definition import LandColumn, Landing, Mode
from seamark.tables.model import FilePart, LedgerEntry, TableStatus
from seamark.tables.registry import Technology, find_technology, open_registry
from tests.fakes.tables.table_suite import OWNER, LedgerSuite, TableSuite
from tests.unit.changes.brokers import FakeBrokers
from tests.unit.fleet.living import LivingConnect, open_living_fleet

SPEC = """\
pipelines:
  orders:
    kind: land
    from: {topic: orders}
    to: {memory: scratch, table: orders}
    columns: {id: bigint}
"""
COLUMNS = (LandColumn("id", "int"),)


@dataclass
class Memory:
    """A store: rows and layout by table, entries by owner, and the number of the next epoch."""

    name: str
    tables: dict = field(default_factory=dict)
    rows: dict = field(default_factory=dict)
    entries: dict = field(default_factory=dict)
    epochs: itertools.count = field(default_factory=lambda: itertools.count(1))


STORES = {}


class MemoryLedger:
    def __init__(self, memory, owner):
        self._memory, self._owner = memory, owner

    def read(self):
        return dict(self._memory.entries.get(self._owner, {}))

    def place(self, entries, *, gone=()):
        held = self._memory.entries.setdefault(self._owner, {})
        for entry in entries:
            held[entry.key] = replace(entry, epoch=next(self._memory.epochs))
        for entry in gone:
            held.pop(entry.key, None)

    def claim(self, firsts):
        held = self._memory.entries.setdefault(self._owner, {})
        for first in firsts:
            held[first.key] = replace(held.get(first.key, first), epoch=next(self._memory.epochs))
        return [held[first.key] for first in firsts]


class MemoryStore:
    def __init__(self, memory):
        self._memory = memory

    def find(self, owner):
        return MemoryLedger(self._memory, owner) if owner in self._memory.entries else None

    def begin(self, owner):
        return MemoryLedger(self._memory, owner)

    def list_owners(self, *, prefix):
        return sorted(owner for owner in self._memory.entries if owner.startswith(prefix))

    def read_identity(self):
        return self._memory.name


class MemoryTable:
    """The half for plans."""

    def __init__(self, memory, definition):
        self._memory, self._definition = memory, definition

    def read_offsets(self):
        return MemoryLedger(self._memory, self._definition.owner).read()

    def read_status(self):
        entries = self.read_offsets()
        return TableStatus(
            entries,
            rows=len(self._memory.rows.get(self._definition.table, ())),
            committed_at=time.time() if entries else None,
        )

    def plan_layout(self):
        known = self._memory.tables.get(self._definition.table, ())
        return tuple(f"ADD {column.name}" for column in self._definition.columns if column.name not in known)

    def apply_layout(self, statements):
        known = self._memory.tables.setdefault(self._definition.table, [])
        known += [statement.removeprefix("ADD ") for statement in statements]

    def list_files(self):
        return [FilePart("", 2, 10, fewest=1)]

    def compact_files(self):
        return 2, 1


@dataclass(frozen=True)
class MemoryTask:
    """The half for an executor: what it returns counts when the driver commits it."""

    partition: int

    def write(self, ids):
        return self.partition, list(ids)


class MemoryTarget:
    """The half for the driver of a run."""

    def __init__(self, definition, memory):
        self._definition, self._memory = definition, memory
        self._ledger = MemoryLedger(memory, definition.owner)

    def prepare(self, spark):
        del spark

    def bind(self, binding):
        del binding

    def build_rows(self, records):
        return records

    def read(self):
        return self._ledger.read()

    def claim(self, firsts):
        return self._ledger.claim(list(firsts))

    def watch(self, entries):
        held = self._ledger.read()
        for entry in entries:
            if held.get(entry.key) != entry:
                raise FencedError(f"{self._definition.owner} no longer holds {entry}")

    def land(self, rows, steps, *, number):
        tasks = {partition: pickle.loads(pickle.dumps(MemoryTask(partition))) for partition in rows}
        receipts = [pickle.loads(pickle.dumps(tasks[partition].write(ids))) for partition, ids in rows.items()]
        # Rows and entries, both or none.
        self.watch([step.entry for step in steps])
        found = [one for _, ids in receipts for one in ids]
        self._memory.rows.setdefault(self._definition.table, []).extend(found)
        self._memory.entries[self._definition.owner] |= {step.entry.key: step.after for step in steps}
        return BatchLanded(number, rows=len(found), deleted=0, dead=0)


class MemoryTechnology(Technology):
    kind = "memory"
    place = "memory"
    place_help = "The store of this process, by its name."
    has_consumers = False
    dead_letter_table = ""
    has_coordinates = False
    has_files = False
    driver = f"{__name__}:MemoryTarget"

    def check_definition(self, definition):
        if definition.key:
            raise UsageError(f"the pipeline {definition.name} can't be {definition.mode} in memory")

    def build_example(self, name):
        return f"STORES[{name!r}]"

    def find_settings(self, context):
        del context
        return STORES

    def open_store(self, settings):
        return MemoryStore(settings)

    def open_table(self, settings, definition):
        return MemoryTable(settings, definition)

    def open_access(self, settings):
        return settings


class Incomplete:
    kind = place = "incomplete"

    def open_table(self, settings, definition):
        pytest.fail("it is not used")


class Imposter(MemoryTechnology):
    kind = "postgresql"


POINTS = ("MemoryTechnology", "Incomplete", "Imposter", "Missing")


@pytest.fixture(autouse=True)
def memory(monkeypatch):
    """The technology is installed, and some that can't be used."""
    points = [EntryPoint(name.lower(), f"{__name__}:{name}", "seamark.tables") for name in POINTS]
    monkeypatch.setattr("seamark.tables.registry.entry_points", lambda *, group: points)
    open_registry.cache_clear()
    STORES["scratch"] = made = Memory("scratch")
    yield made
    STORES.clear()
    open_registry.cache_clear()


class TestMemoryLedger(LedgerSuite):
    @pytest.fixture
    def store(self, memory):
        return find_technology("memory").open_store(memory)

    @pytest.fixture
    def ledger(self, store):
        return store.begin(OWNER)


class MemoryHarness:
    def __init__(self, memory):
        self.technology, self.settings = find_technology("memory"), memory

    def open_driver(self, definition):
        return resolve_name(self.technology.driver)(definition, self.technology.open_access(self.settings))

    def land(self, driver, steps, ids):
        return driver.land(ids, steps, number=0)

    def read_ids(self):
        return sorted(self.settings.rows.get("orders", []))


class TestMemoryTable(TableSuite):
    @pytest.fixture
    def harness(self, memory):
        return MemoryHarness(memory)


def test_packages_that_can_not_be_used_are_named_and_harm_nobody():
    registry = open_registry()
    assert [one.kind for one in registry.ledgers] == ["postgresql", "delta", "memory"]
    assert registry.failures["incomplete"].startswith("TypeError: it has no has_consumers, find_settings")
    assert registry.failures["imposter"] == "TypeError: postgresql (memory) is registered already"
    assert "Missing" in registry.failures["missing"]
    with pytest.raises(UsageError, match="'sea'") as caught:
        find_technology("sea")
    assert caught.value.hint == "use one of postgresql, delta, memory"
    assert "incomplete: TypeError" in caught.value.cause


def test_definition_is_checked_by_its_technology():
    with pytest.raises(UsageError, match="can't be upsert in memory"):
        Landing("a", topic="a", table="a", columns=COLUMNS, mode=Mode.UPSERT, key=("id",), store="memory")


@pytest.fixture
def brokers():
    made = FakeBrokers()
    made.add_topic("orders", partitions=2, records=10)
    return made


@pytest.fixture
def fleet(tmp_path, brokers):
    (tmp_path / "pipelines.yaml").write_text(SPEC)
    with open_living_fleet(tmp_path, LivingConnect(), brokers=brokers) as opened:
        yield opened


@pytest.fixture
def declared(fleet, tmp_path):
    assert fleet.apply(fleet.plan(tmp_path / "pipelines.yaml")).is_done
    (found,) = fleet.pipelines.declared(names=["orders"])
    return found


def run_on_a_driver(session, landing, ends, **_):
    """What `seamark.pipelines.spark_job` does, without Spark."""
    target = resolve_name(find_technology(landing.store).driver)(landing, ends.target)
    target.prepare(session)
    held = target.claim([LedgerEntry("orders", ends.source["id"], number, next_offset=0) for number in range(2)])
    target.land(
        {0: [1, 2]},
        [SimpleNamespace(entry=one, after=replace(one, next_offset=10)) for one in held],
        number=0,
    )
    return tuple(target.read().values())


@pytest.fixture
def land(fleet, brokers, monkeypatch):
    """Run a pipeline. The module of the job imports pyspark, which the unit tier has not."""
    job = SimpleNamespace(
        DEFAULT_RECORDS=1,
        LandEnds=lambda source, *, target, source_client: SimpleNamespace(source=source, target=target),
        run_landing=run_on_a_driver,
    )
    monkeypatch.setitem(sys.modules, "seamark.pipelines.spark_job", job)
    monkeypatch.setattr("seamark.pipelines.service.require_spark", lambda: None)
    monkeypatch.setattr("seamark.pipelines.service.open_spark", lambda wish, work: nullcontext())
    monkeypatch.setattr("seamark.spark.settings.build_source", lambda _: {"id": brokers.topics["orders"].id})
    monkeypatch.setattr("seamark.spark.settings.build_client", lambda _: {})
    return lambda declared: fleet.pipelines.run(fleet.pipelines.plan(declared))


def test_file_names_it_and_the_journal_gives_it_back(fleet, declared):
    assert (declared.landing.store, declared.where) == ("memory", "scratch")
    assert fleet.pipelines._read_registered()["orders"]["memory"] == "scratch"
    to = build_schema()["definitions"]["pipeline"]["properties"]["to"]["properties"]
    assert to["memory"]["description"] == MemoryTechnology.place_help


def test_store_that_is_not_there_is_refused_with_an_example(fleet, tmp_path):
    (tmp_path / "pipelines.yaml").write_text(SPEC.replace("scratch", "elsewhere"))
    with pytest.raises(SpecError, match="has no memory elsewhere") as caught:
        fleet.plan(tmp_path / "pipelines.yaml")
    assert caught.value.hint == "add it to the context: STORES['elsewhere']"


def test_table_is_planned_made_and_landed(fleet, memory, declared, land):
    plan = fleet.pipelines.plan(declared)
    assert (plan.state, plan.statements, plan.behind) == (LandState.NEW, ("ADD id",), 20)
    land(declared)
    after = fleet.pipelines.plan(declared)
    assert (memory.rows, after.state, after.statements) == ({"orders": [1, 2]}, LandState.LANDED, ())
    assert json.loads(json.dumps(after.to_dict()))["store"] == "memory"


def test_offsets_are_moved_and_undone(fleet, memory, declared, land):
    land(declared)
    done = fleet.apply(fleet.offsets.move(OWNER, to=4))
    assert done.is_done
    assert sorted(entry.next_offset for entry in memory.entries[OWNER].values()) == [4, 4]
    assert fleet.pipelines.plan(declared).state is LandState.BEHIND
    assert fleet.apply(fleet.undo(done)).is_done
    assert sorted(entry.next_offset for entry in memory.entries[OWNER].values()) == [10, 10]
