"""Landings in a cut-over: shut out, carried over, found where somebody starts them again, and taken back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from seamark.database.ledger import Entry
from seamark.fleet.copies.actions import CutoverGroup
from seamark.fleet.ledgers import fence_ledger, read_epochs
from seamark.model.copy_reader import CarriedReader
from tests.unit.change.harbour import BACK, Harbour
from tests.unit.fleet.ledger_in_memory import MemoryLedger, route

OWNER = "pipeline/orders"


class LandingHarbour(Harbour):
    """A harbour with a landing of the source. What it stands for in the target is the sum of its places."""

    def __init__(self, folder):
        super().__init__(folder)
        self.old_id = self.brokers.topics["orders"].id
        self.ledger = MemoryLedger(
            Entry("orders", self.old_id, 0, next_offset=7, epoch=100),
            Entry("orders", self.old_id, 1, next_offset=4, epoch=100),
        )
        self.on_look = []

    def kafka(self):
        return route(self.brokers, {OWNER: self.ledger})

    def shut_out(self, owner, topic):
        self.log.append(f"shut out {owner}")
        return fence_ledger(self.kafka(), owner, topic)

    def read_epochs(self, owner, topic):
        if self.on_look:
            self.on_look.pop()()
        return read_epochs(self.kafka(), owner, topic)

    def translate(self, copy, groups, *, missing):
        others = [group for group in groups if group != OWNER]
        found = super().translate(copy, others, missing=missing)
        topic = "orders-1" if copy == BACK else "orders"
        (held,) = self.kafka().read_committed({OWNER: None}).items
        place = sum(commit.offset for spot, commit in held.offsets.items() if spot[0] == topic)
        return {**found, OWNER: CarriedReader({0: place}, to_read=9, replayed_least=3, replayed_most=3)}

    def build_cutover(self, **changes):
        built = super().build_cutover(**changes)
        return replace(built, groups=(*built.groups, CutoverGroup(OWNER, sees_debris=False)))

    def claim_again(self):
        self.ledger.claim([entry for entry in self.ledger.read().values() if entry.topic_id == self.old_id])

    @property
    def places(self):
        return {(topic, number): at for (topic, _, number), at in self.ledger.offsets.items()}


@pytest.fixture
def harbour(tmp_path):
    return LandingHarbour(tmp_path)


def find_failed(result):
    return [(step.kind, step.subject) for step in result.steps if step.error is not None]


def test_landing_is_shut_out_late_and_gets_its_place_in_the_target(harbour):
    result = harbour.apply(harbour.plan(harbour.build_cutover()))
    assert str(result.ending) == "done"
    assert harbour.places == {("orders", 0): 7, ("orders", 1): 4, ("orders-1", 0): 11}
    log = harbour.log
    assert log.index("verify standard") < log.index(f"shut out {OWNER}") < log.index("put lake")
    notes = {step.subject: step.note for step in result.steps if step.kind == "carry-reader"}
    assert notes[OWNER] == "9 records to read, 3 records again"
    # Whoever held the source holds it no more.
    assert all(entry.epoch > 100 for entry in harbour.ledger.read().values() if entry.topic == "orders")


def test_run_that_somebody_starts_again_is_found(harbour):
    harbour.on_look = [harbour.claim_again]
    result = harbour.apply(harbour.plan(harbour.build_cutover()))
    assert find_failed(result) == [("shut-out-landing", OWNER)]
    (error,) = [step.error for step in result.steps if step.error is not None]
    assert "a supervisor" in error.hint
    assert harbour.places == {("orders", 0): 7, ("orders", 1): 4}
    assert harbour.configs["lake"]["topics"] == "orders,other"


def test_run_that_lands_more_after_its_place_was_told_is_found_before_anybody_is_turned(harbour):
    perform = harbour.ledger.place

    def place(entries, *, gone=()):
        perform(entries, gone=gone)
        harbour.ledger.move((harbour.old_id, 0), to=9)

    harbour.ledger.place = place
    result = harbour.apply(harbour.plan(harbour.build_cutover()))
    assert find_failed(result) == [("prove-carried", OWNER)]
    assert "put lake" not in harbour.log[: harbour.log.index("start lake")]
    assert harbour.states == {"lake": "RUNNING", "shop": "RUNNING"}


def test_landing_goes_on_in_the_source_when_it_is_taken_back(harbour):
    result = harbour.apply(harbour.plan(harbour.build_cutover()))
    target_id = harbour.brokers.topics["orders-1"].id
    # It has run since, and stands elsewhere.
    harbour.ledger.move((target_id, 0), to=15)
    plan, _ = harbour.undo(result.change)
    assert any("the landing orders reads orders-1 by its file: set from.topic to orders" in note for note in plan.notes)
    assert str(harbour.apply(plan).ending) == "done"
    assert harbour.places == {("orders", 0): 7, ("orders", 1): 4}


def test_topic_made_anew_is_another_place_in_the_ledger(harbour):
    result = harbour.apply(harbour.plan(harbour.build_in_place()))
    assert str(result.ending) == "done"
    new_id = harbour.brokers.topics["orders"].id
    assert new_id != harbour.old_id
    assert harbour.ledger.offsets["orders", new_id, 0] == 11
    # What is left of the old one is nobody's place any more.
    (held,) = harbour.kafka().read_committed({OWNER: [("orders", 0), ("orders", 1)]}).items
    assert {spot: commit.offset for spot, commit in held.offsets.items()} == {("orders", 0): 11}
