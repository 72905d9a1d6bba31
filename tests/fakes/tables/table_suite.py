"""What seamark relies on of a technology that holds ledgers and tables. Every technology runs the same cases.

A test module makes a class of a suite, with the fixture that the suite names. No case needs Spark: a harness hands the
rows of a batch to the driver's half itself.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Protocol

import pytest

from seamark.errors import FencedError
from seamark.tables.definition import LandColumn, Landing
from seamark.tables.model import LedgerAdvance, LedgerEntry
from seamark.tables.registry import LedgerPort, LedgerStore, Technology

OWNER = "pipeline/orders"
FIRST = LedgerEntry("orders", "id-1", 0, next_offset=5)
SECOND = replace(FIRST, partition=1, next_offset=9)
RECREATED = replace(FIRST, topic_id="id-2", next_offset=0)


def read_places(ledger):
    return {key: entry.next_offset for key, entry in ledger.read().items()}


class LedgerSuite:
    """The cases of a ledger. The fixtures are `store`, an empty `LedgerStore`, and `ledger`, of `OWNER` there."""

    def test_owner_without_a_ledger_is_not_found(self, store: LedgerStore):
        assert store.find("pipeline/nobody") is None

    def test_entries_are_placed_and_found(self, store: LedgerStore, ledger: LedgerPort):
        ledger.place([FIRST, SECOND])
        assert read_places(ledger) == {FIRST.key: 5, SECOND.key: 9}
        assert read_places(store.find(OWNER)) == {FIRST.key: 5, SECOND.key: 9}

    def test_recreated_topic_has_entries_of_its_own(self, ledger: LedgerPort):
        ledger.place([FIRST])
        ledger.place([RECREATED])
        assert read_places(ledger) == {FIRST.key: 5, RECREATED.key: 0}

    def test_entries_are_set_and_removed_in_one_step(self, ledger: LedgerPort):
        ledger.place([FIRST, SECOND])
        ledger.place([replace(SECOND, next_offset=2)], gone=[FIRST])
        assert read_places(ledger) == {SECOND.key: 2}

    def test_claim_begins_what_is_missing_and_keeps_what_is_there(self, ledger: LedgerPort):
        ledger.place([FIRST])
        found = ledger.claim([replace(FIRST, next_offset=77), SECOND])
        assert [(entry.key, entry.next_offset) for entry in found] == [(FIRST.key, 5), (SECOND.key, 9)]
        assert read_places(ledger) == {FIRST.key: 5, SECOND.key: 9}

    def test_each_claim_and_each_placement_has_an_epoch_of_its_own(self, ledger: LedgerPort):
        epochs = []
        for act in (ledger.claim, ledger.claim, ledger.place, ledger.claim):
            act([FIRST])
            epochs.append(ledger.read()[FIRST.key].epoch)
        assert len(set(epochs)) == len(epochs)
        (claimed,) = ledger.claim([FIRST])
        assert claimed.epoch == ledger.read()[FIRST.key].epoch

    def test_owners_are_listed_by_their_prefix(self, store: LedgerStore, ledger: LedgerPort):
        ledger.place([FIRST])
        assert OWNER in store.list_owners(prefix="pipeline/")
        assert OWNER not in store.list_owners(prefix="pipeline/other")

    def test_store_has_one_identity(self, store: LedgerStore):
        assert store.read_identity()
        assert store.read_identity() == store.read_identity()


class Harness(Protocol):
    """A technology with an empty store of its own."""

    technology: Technology
    settings: Any

    def open_driver(self, definition: Landing) -> Any:
        """Return the driver's half of a new run, prepared."""

    def land(self, driver: Any, steps: list[LedgerAdvance], ids: dict[int, list[int]]) -> Any:
        """Have a driver land a batch: by partition, the IDs of the records from the step's first offset on."""

    def read_ids(self) -> list[int]:
        """Return the IDs of all rows of the table, in their order."""


class TableSuite:
    """The cases of a pipeline target. The fixture is `harness`, a `Harness`."""

    @pytest.fixture
    def definition(self, harness: Harness):
        return Landing(
            "orders",
            topic="orders",
            table="orders",
            columns=(LandColumn("id", "bigint"),),
            store=harness.technology.kind,
        )

    @pytest.fixture
    def table(self, harness: Harness, definition):
        return harness.technology.open_table(harness.settings, definition)

    @pytest.fixture
    def open_run(self, harness: Harness, table, definition):
        """Runs of the pipeline, each with the table as a plan has made it fit."""

        def begin(*firsts):
            if statements := table.plan_layout():
                table.apply_layout(statements)
            driver = harness.open_driver(definition)
            return driver, list(driver.claim(firsts or [FIRST]))

        return begin

    @pytest.fixture
    def read_ledger(self, harness: Harness):
        return lambda: harness.technology.open_store(harness.settings).find(OWNER)

    def test_definition_survives_json(self, definition):
        assert Landing.from_dict(definition.to_dict()) == definition

    def test_layout_is_planned_once(self, table):
        assert table.read_offsets() == {}
        statements = table.plan_layout()
        assert statements
        table.apply_layout(statements)
        assert table.plan_layout() == ()

    def test_rows_arrive_with_their_offsets(self, harness, table, open_run, read_ledger):
        run, held = open_run(FIRST, SECOND)
        landed = harness.land(run, [LedgerAdvance(held[0], 8), LedgerAdvance(held[1], 10)], {0: [1, 2, 3], 1: [4]})
        assert (landed.rows, landed.deleted, landed.dead) == (4, 0, 0)
        assert harness.read_ids() == [1, 2, 3, 4]
        assert read_places(read_ledger()) == {FIRST.key: 8, SECOND.key: 10}
        assert {key: entry.next_offset for key, entry in table.read_offsets().items()} == {FIRST.key: 8, SECOND.key: 10}

    def test_status_has_offsets_rows_and_the_last_commit(self, harness, table, open_run):
        before = table.read_status()
        assert (dict(before.entries), before.rows or 0, before.committed_at) == ({}, 0, None)
        run, held = open_run(FIRST, SECOND)
        harness.land(run, [LedgerAdvance(held[0], 8)], {0: [1, 2, 3]})
        found = table.read_status()
        assert {key: entry.next_offset for key, entry in found.entries.items()} == {FIRST.key: 8, SECOND.key: 9}
        # An estimate may not be there yet.
        assert found.rows == 3 or (found.is_estimate and found.rows is None)
        assert abs(time.time() - found.committed_at) < 60

    def test_range_without_records_moves_the_offset(self, harness, open_run, read_ledger):
        run, held = open_run()
        assert harness.land(run, [LedgerAdvance(held[0], 8)], {}).rows == 0
        assert (harness.read_ids(), read_places(read_ledger())) == ([], {FIRST.key: 8})

    def test_next_run_begins_where_the_last_one_ended(self, harness, open_run):
        run, held = open_run()
        harness.land(run, [LedgerAdvance(held[0], 8)], {0: [1, 2, 3]})
        _, held = open_run(replace(FIRST, next_offset=0))
        assert [entry.next_offset for entry in held] == [8]

    def test_of_two_runs_one_lands_a_range(self, harness, open_run, read_ledger):
        (first, held), (second, other) = open_run(), open_run()
        harness.land(second, [LedgerAdvance(other[0], 8)], {0: [1, 2, 3]})
        with pytest.raises(FencedError):
            harness.land(first, [LedgerAdvance(held[0], 7)], {0: [1, 2]})
        assert (harness.read_ids(), read_places(read_ledger())) == ([1, 2, 3], {FIRST.key: 8})

    @pytest.mark.parametrize("to", [None, 5, 2])
    def test_run_is_fenced_by_a_claim_and_by_a_move(self, harness, open_run, read_ledger, to):
        run, held = open_run()
        run.watch(held)
        ledger = read_ledger()
        # Also a move to the offset at which it is: what the run holds is no longer what the operator saw.
        ledger.claim([FIRST]) if to is None else ledger.place([replace(FIRST, next_offset=to)])
        with pytest.raises(FencedError):
            run.watch(held)
        with pytest.raises(FencedError):
            harness.land(run, [LedgerAdvance(held[0], 8)], {0: [1, 2, 3]})
        assert (harness.read_ids(), read_places(read_ledger())) == ([], {FIRST.key: 5 if to is None else to})

    def test_entry_that_was_removed_is_not_moved(self, harness, open_run, read_ledger):
        run, held = open_run(FIRST, SECOND)
        read_ledger().place([], gone=[FIRST])
        with pytest.raises(FencedError):
            harness.land(run, [LedgerAdvance(held[0], 8)], {0: [1]})
        assert (harness.read_ids(), read_places(read_ledger())) == ([], {SECOND.key: 9})
