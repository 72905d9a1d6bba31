"""Pipelines among the readers of a copy: found in their ledgers, and told what they have to do."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from seamark.context.context import DatabaseSettings
from seamark.context.reference import Secret
from seamark.copies.cutover.planner import CutoverOptions
from seamark.copies.plan.users import ReaderKind
from seamark.core.readings import Reading
from seamark.core.refs import find_mirror
from seamark.errors import PartialError, RefusedError, UnreachableError
from seamark.offsets.stores.ledger import fence_ledger, list_ledgers, read_epochs, route_ledgers
from seamark.tables.definition import LandColumn, Landing
from seamark.tables.model import LedgerEntry
from seamark.tables.registry import list_consumers, list_owners
from tests.unit.changes.brokers import FakeBrokers
from tests.unit.copies.test_copy_plans import Desk
from tests.unit.copies.test_copy_work import PLAN, Copied
from tests.unit.offsets.ledger_in_memory import MemoryLedger, route

OWNER, MIRROR = "pipeline/sales", "seamark-pipeline-sales"
AWAY = {"database shop": UnreachableError("database shop does not answer")}


@pytest.fixture
def desk(tmp_path, monkeypatch):
    ledgers, failures = {}, {}
    monkeypatch.setattr(
        "seamark.fleet.environment.route_ledgers", lambda brokers, _: route(brokers, ledgers, failures=failures)
    )
    made = Desk(tmp_path, monkeypatch)
    made.ledgers, made.failures = ledgers, failures
    topic_id = made.brokers.topics["t"].id
    ledgers[OWNER] = MemoryLedger(*(LedgerEntry("t", topic_id, n, next_offset=900) for n in range(4)))
    ledgers["pipeline/other"] = MemoryLedger(LedgerEntry("u", "id of another", 0, next_offset=1))
    made.brokers.add_group(MIRROR, {("t", n): 880 for n in range(4)})
    return made


def run_copy(desk):
    desk.copy = desk.plan().plan
    desk.fleet.copies.run(desk.copy)
    return desk.copy


def test_plan_names_landings_among_the_readers(desk):
    (reader,) = desk.plan().readers
    assert (reader.name, reader.kind, reader.lag) == (OWNER, ReaderKind.PIPELINE, 400)
    assert reader.offsets == dict.fromkeys(range(4), 900)
    desk.failures |= AWAY
    assert any("database shop does not answer" in note for note in desk.plan().users.notes)


def test_group_of_a_landing_whose_ledger_nobody_knows_is_told(desk):
    desk.brokers.add_group("seamark-pipeline-far", {("t", 0): 5})
    draft = desk.plan()
    assert [reader.name for reader in draft.readers] == [OWNER, "seamark-pipeline-far"]
    assert any("group seamark-pipeline-far shows the lag of a pipeline" in note for note in draft.users.notes)


def test_cutover_says_what_the_owner_has_to_do(desk):
    copy = run_copy(desk)
    planned = desk.fleet.copies.cutover(copy.id, CutoverOptions())
    (effect,) = [effect for effect in planned.effects if effect.subject == OWNER]
    assert effect.consequences
    assert "group.pipeline%2Fsales" in planned.plan.locks
    notes = "\n".join(planned.plan.notes)
    assert "pipeline sales reads t: set from.topic to t-2" in notes
    assert "stop pipeline/sales first" in notes
    kinds = [step.kind for step in planned.plan.steps if step.subject == OWNER]
    assert kinds == ["fence-pipeline", "translate-group", "prove-translated"]
    assert not any(MIRROR in step.subject for step in planned.plan.steps)
    in_place = desk.fleet.copies.cutover(copy.id, CutoverOptions(in_place=True))
    assert not any("from.topic" in note for note in in_place.plan.notes)
    left = desk.fleet.copies.cutover(copy.id, CutoverOptions(leave=(OWNER,)))
    assert not any(step.subject == OWNER for step in left.plan.steps)


def test_readers_of_a_copy_are_landings_too(desk):
    copy = run_copy(desk)
    found = desk.fleet.copies.consumers(copy.id)
    assert list(found) == [OWNER]
    assert found[OWNER].offsets
    desk.failures |= AWAY
    with pytest.raises(PartialError, match="database shop"):
        desk.fleet.copies.consumers(copy.id)


def test_finish_refuses_a_topic_that_a_landing_was_not_carried_from(desk):
    copy = run_copy(desk)
    with pytest.raises(RefusedError, match="t is still needed") as caught:
        desk.fleet.copies.cleanup(copy.id)
    assert caught.value.cause == f"{OWNER} has offsets in it, and none in t-2"
    target_id = desk.brokers.topics["t-2"].id
    desk.ledgers[OWNER].place([LedgerEntry("t-2", target_id, 0, next_offset=0)])
    assert [effect.subject for effect in desk.fleet.copies.cleanup(copy.id).effects] == ["topic/t"]
    desk.failures |= AWAY
    with pytest.raises(PartialError, match="database shop"):
        desk.fleet.copies.cleanup(copy.id)


def open_copied(entries, **more):
    copied = Copied(**more)
    topic_id = copied.brokers.topics["orders"].id
    ledger = MemoryLedger(*(LedgerEntry("orders", topic_id, number, next_offset=at) for number, at in entries.items()))
    copied.brokers = route(copied.brokers, {OWNER: ledger})
    return copied, ledger


def test_partition_that_a_landing_has_not_met_is_landed_from_its_beginning():
    copied, _ = open_copied({0: 50, 1: 50, 2: 50})
    found = copied.open().translate(PLAN, [OWNER], missing="")[OWNER]
    assert found.to_read >= 50
    assert found == copied.open().translate(PLAN, [OWNER], missing="latest")[OWNER]


def test_landing_does_not_pass_over_what_it_has_not_landed():
    copied, _ = open_copied(dict.fromkeys(range(4), 3), begin=10)
    # Gone from the source, too: a group goes on behind it, and a landing asks.
    copied.brokers.topics["orders"].starts = dict.fromkeys(range(4), 10)
    with pytest.raises(
        RefusedError, match=f"{OWNER} has not processed all records before the start of the copy"
    ) as caught:
        copied.open().translate(PLAN, [OWNER], missing="")
    assert "seamark offsets move pipeline/sales --to earliest" in caught.value.hint


def test_whoever_lands_is_shut_out_and_offsets_stay():
    copied, ledger = open_copied({0: 50, 1: 7})
    work, before = copied.open(), ledger.offsets
    seen = work.read_epochs(OWNER, "orders")
    taken = work.shut_out(OWNER, "orders")
    assert taken == work.read_epochs(OWNER, "orders") == {number: epoch + 1 for number, epoch in seen.items()}
    assert ledger.offsets == before
    assert work.read_epochs(OWNER, "orders-2") == {}


def test_brokers_without_databases_have_no_ledgers():
    brokers = FakeBrokers()
    assert route_ledgers(brokers, SimpleNamespace(databases={}, lakes={})) is brokers
    assert (list_ledgers(brokers).items, fence_ledger(brokers, OWNER, "t"), read_epochs(brokers, OWNER, "t")) == (
        (),
        {},
        {},
    )


def test_owners_are_those_of_all_databases_and_who_is_away_is_told(monkeypatch):
    def read(dsn, name, *, prefix):
        assert prefix == "pipeline/"
        if name == "away":
            raise UnreachableError("database away does not answer")
        return (f"pipeline/{name}", "pipeline/both")

    monkeypatch.setattr("seamark.tables.postgres.connection.read_owners", read)
    named = {name: DatabaseSettings(name, "", Secret("x")) for name in ("b", "away", "a")}
    found = list_owners(SimpleNamespace(databases=named, lakes={}))
    assert found.items == ("pipeline/a", "pipeline/b", "pipeline/both")
    assert list(found.failures) == ["database away"]


def test_consumers_are_owners_that_are_no_landings(monkeypatch):
    def read(dsn, name, *, prefix):
        if name == "away":
            raise UnreachableError("database away does not answer")
        return tuple(owner for owner in ("billing", "pipeline/sales") if owner.startswith(prefix))

    monkeypatch.setattr("seamark.tables.postgres.connection.read_owners", read)
    named = {name: DatabaseSettings(name, "", Secret("x")) for name in ("away", "shop")}
    assert list_consumers(SimpleNamespace(databases=named, lakes={})) == {"billing"}
    assert list_consumers(SimpleNamespace(databases={}, lakes={})) == frozenset()


def test_cutover_names_groups_that_only_follow_a_ledger(desk, monkeypatch):
    monkeypatch.setattr("seamark.copies.cutover.planner.list_consumers", lambda _: frozenset({"billing", "elsewhere"}))
    desk.brokers.add_group("billing", {("t", n): 100 for n in range(4)})
    desk.brokers.add_group("report", {("t", n): 100 for n in range(4)})
    copy = run_copy(desk)
    notes = desk.fleet.copies.cutover(copy.id, CutoverOptions(allow_aborted_records=True)).plan.notes
    (told,) = [note for note in notes if "a consumer with a ledger" in note]
    assert told.startswith("group billing belongs to a consumer")
    assert "seamark groups show billing" in told
    left = desk.fleet.copies.cutover(copy.id, CutoverOptions(leave=("billing",), allow_aborted_records=True))
    assert not any("a consumer with a ledger" in note for note in left.plan.notes)


def test_topic_that_can_not_be_asked_for_is_no_topic_that_is_gone():
    brokers = FakeBrokers()
    brokers.add_topic("t")
    brokers.read_topics = lambda names: Reading(failures=dict.fromkeys(names, UnreachableError("no broker")))
    ledger = MemoryLedger(LedgerEntry("t", brokers.topics["t"].id, 0, next_offset=5))
    reading = route(brokers, {OWNER: ledger}).read_committed({OWNER: None})
    assert isinstance(reading.failures[OWNER], UnreachableError)


def test_mirror_is_named_as_the_landing_names_it():
    landing = Landing("sales", topic="t", table="t", columns=(LandColumn("id", "int"),))
    assert find_mirror(landing.owner) == landing.group == MIRROR
