"""A ledger that this module alone defines, of a technology without tables: an offset store found by registration."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import EntryPoint

import pytest

from seamark.errors import FormatVersionError, NotFoundError, RefusedError, SpecError, UnreachableError
from seamark.offsets.stores.ledger import fence_ledger, list_ledgers, read_epochs
from seamark.tables.model import LedgerEntry
from seamark.tables.registry import LedgerTechnology, list_consumers, open_registry
from tests.fakes.tables.table_suite import OWNER, LedgerSuite
from tests.unit.changes.brokers import FakeBrokers
from tests.unit.fleet.living import LivingConnect, open_living_fleet
from tests.unit.offsets.ledger_in_memory import MemoryLedger

SHELVES, RACKS = {}, {}


class ShelfStore:
    """Ledgers by owner. One that is `away` raises when it is asked."""

    def __init__(self, shelf):
        self._shelf = shelf

    def find(self, owner):
        self._check()
        found = self._shelf.get(owner)
        return found if found is not None and found.read() else None

    def begin(self, owner):
        return self._shelf.setdefault(owner, MemoryLedger())

    def list_owners(self, *, prefix):
        self._check()
        return [owner for owner in self._shelf if owner.startswith(prefix)]

    def read_identity(self):
        return self._shelf.get("identity") or str(id(self._shelf))

    def _check(self):
        if (error := self._shelf.get("away")) is not None:
            raise error


class ShelfTechnology(LedgerTechnology):
    kind = place = "shelf"
    has_consumers = True

    def find_settings(self, context):
        del context
        return SHELVES

    def open_store(self, settings):
        return ShelfStore(settings)


class RackTechnology(ShelfTechnology):
    kind = place = "rack"

    def find_settings(self, context):
        del context
        return RACKS


@pytest.fixture(autouse=True)
def shelf(monkeypatch):
    points = [
        EntryPoint(name, f"{__name__}:{name}", "seamark.tables") for name in ("RackTechnology", "ShelfTechnology")
    ]
    monkeypatch.setattr("seamark.tables.registry.entry_points", lambda *, group: points)
    open_registry.cache_clear()
    SHELVES["top"] = made = {}
    yield made
    SHELVES.clear()
    RACKS.clear()
    open_registry.cache_clear()


class TestShelfLedger(LedgerSuite):
    @pytest.fixture
    def store(self, shelf):
        return ShelfTechnology().open_store(shelf)

    @pytest.fixture
    def ledger(self, store):
        return store.begin(OWNER)


@pytest.fixture
def brokers():
    made = FakeBrokers()
    made.add_topic("orders", partitions=2, records=10)
    return made


@pytest.fixture
def fleet(tmp_path, brokers):
    with open_living_fleet(tmp_path, LivingConnect(), brokers=brokers) as opened:
        yield opened


@pytest.fixture
def ledger(shelf, brokers):
    entries = (LedgerEntry("orders", brokers.topics["orders"].id, number, next_offset=8) for number in range(2))
    shelf[OWNER] = made = MemoryLedger(*entries)
    return made


def list_places(ledger):
    return sorted((number, at) for (_, _, number), at in ledger.offsets.items())


def test_offsets_are_moved_forgotten_and_each_is_undone(fleet, ledger):
    moved = fleet.apply(fleet.offsets.move(OWNER, to=4))
    assert moved.is_done
    assert list_places(ledger) == [(0, 4), (1, 4)]
    assert fleet.apply(fleet.undo(moved)).is_done
    forgotten = fleet.apply(fleet.offsets.reset(OWNER))
    assert list_places(ledger) == []
    assert fleet.apply(fleet.undo(forgotten)).is_done
    assert list_places(ledger) == [(0, 8), (1, 8)]


def test_offsets_are_forgotten_where_the_ledger_itself_stays(fleet, ledger, monkeypatch):
    """As in a Delta table, which knows its pipeline with and without offsets."""
    monkeypatch.setattr(ShelfStore, "find", lambda store, owner: store._shelf.get(owner))
    forgotten = fleet.apply(fleet.offsets.reset(OWNER))
    assert forgotten.is_done
    assert list_places(ledger) == []
    assert fleet.apply(fleet.undo(forgotten)).is_done
    assert list_places(ledger) == [(0, 8), (1, 8)]


def test_owner_that_was_removed_begins_again_in_the_only_store(fleet, shelf, ledger):
    forgotten = fleet.apply(fleet.offsets.reset(OWNER))
    del shelf[OWNER]
    assert fleet.apply(fleet.undo(forgotten)).is_done
    assert list_places(shelf[OWNER]) == [(0, 8), (1, 8)]


def test_owners_are_found_and_fenced(fleet, shelf, ledger):
    kafka = fleet.copies.endpoints.target.kafka
    shelf["billing"] = MemoryLedger()
    assert (list_ledgers(kafka).items, list_consumers(fleet.context)) == ((OWNER,), {"billing"})
    before = read_epochs(kafka, OWNER, "orders")
    assert fence_ledger(kafka, OWNER, "orders") == {number: epoch + 1 for number, epoch in before.items()}
    assert list_places(ledger) == [(0, 8), (1, 8)]


def test_store_that_is_away_is_no_store_without_the_owner(fleet, ledger):
    SHELVES["low"] = {"away": UnreachableError("the shelf has fallen")}
    kafka = fleet.copies.endpoints.target.kafka
    assert list(list_ledgers(kafka).failures) == ["shelf low"]
    # The other shelf has it.
    assert fleet.offsets.get(OWNER).offsets
    SHELVES["top"].clear()
    (failure,) = kafka.read_committed({OWNER: None}).failures.values()
    assert "low: the shelf has fallen" in failure.cause
    # A newer seamark wrote there: what another store says must not be used instead.
    SHELVES["top"][OWNER] = ledger
    SHELVES["low"]["away"] = FormatVersionError("another version")
    (failure,) = kafka.read_committed({OWNER: None}).failures.values()
    assert isinstance(failure, FormatVersionError)


def test_offsets_in_two_stores_are_refused_unless_they_are_one(fleet, shelf, ledger):
    kafka = fleet.copies.endpoints.target.kafka
    SHELVES["again"] = shelf
    assert kafka.read_committed({OWNER: None}).items
    entry = next(iter(ledger.read().values()))
    SHELVES["low"] = {OWNER: MemoryLedger(replace(entry, next_offset=1))}
    (failure,) = kafka.read_committed({OWNER: None}).failures.values()
    assert isinstance(failure, RefusedError)
    assert "top, again, low" in failure.message


def test_stores_of_two_technologies_are_never_one(fleet, shelf, ledger):
    shelf["identity"] = "here"
    RACKS["low"] = {OWNER: ledger, "identity": "here"}
    (failure,) = fleet.copies.endpoints.target.kafka.read_committed({OWNER: None}).failures.values()
    assert isinstance(failure, RefusedError)


def test_owner_that_no_store_knows_is_not_found(fleet):
    with pytest.raises(NotFoundError):
        fleet.offsets.get("pipeline/nobody")


def test_technology_without_tables_is_no_target(fleet, tmp_path):
    text = "pipelines: {a: {kind: land, from: {topic: a}, to: {shelf: top, table: a}, columns: {id: int}}}"
    (tmp_path / "pipelines.yaml").write_text(text)
    with pytest.raises(SpecError) as caught:
        fleet.plan(tmp_path / "pipelines.yaml")
    assert "to has no key shelf" in f"{caught.value.message} {caught.value.cause}"
