"""Pipelines as files declare them, what a run would do, and the ledger in a group's place."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from seamark.connectors.config import DesiredConnector
from seamark.context.context import DatabaseSettings, LakeSettings
from seamark.context.reference import Secret
from seamark.core.files import FileLocation
from seamark.core.readings import Reading
from seamark.core.refs import build_group_owner, is_group_owner, read_group_name
from seamark.errors import (
    JournalError,
    NotFoundError,
    RefusedError,
    SpecError,
    StalePlanError,
    UnreachableError,
    UsageError,
)
from seamark.kafka.groups import Committed, GroupOffsets
from seamark.kafka.model import LogOffsets, OffsetSpec, TopicStatus
from seamark.offsets.stores.ledger import LedgerBrokers, LedgerOffsets, open_ledger
from seamark.pipelines.actions import build_body, read_body
from seamark.pipelines.declared import DesiredColumn, DesiredDeadLetters, DesiredLanding, TargetRef, build_declared
from seamark.pipelines.service import Pipelines, list_table_files
from seamark.pipelines.spark_topic import LandTopic
from seamark.pipelines.status import LandPlan, LandState, build_standings
from seamark.pipelines.views import build_landing_view, build_landings_view
from seamark.report.data import OutputFormat
from seamark.report.listing import render_view
from seamark.specs.model import Spec
from seamark.tables.model import LedgerEntry
from tests.unit.changes.brokers import FakeBrokers
from tests.unit.fleet.living import SOURCE_CONFIG, LivingConnect, open_living_fleet, register

SHOP = DatabaseSettings("shop", "jdbc:postgresql://db/shop", Secret("postgresql://me:hidden@db/shop"))
LAKE = LakeSettings("lake", "s3://bucket/raw", secret_key=Secret("hidden"))
CONTEXT = SimpleNamespace(
    name="dev",
    databases={"shop": SHOP},
    lakes={"lake": LAKE},
    roles={},
    read_only=False,
    kafka=SimpleNamespace(values={}),
    connect={},
)
DESIRED = DesiredLanding(
    "orders",
    FileLocation("pipelines.yaml", 3),
    topic="orders",
    table="orders",
    columns=(DesiredColumn("id", "bigint"),),
    target=TargetRef("database", "shop"),
)


@pytest.mark.parametrize(
    ("start", "words"),
    [(OffsetSpec.EARLIEST, "at the first record of the new topic"), (OffsetSpec.LATEST, "at the end of the new topic")],
)
def test_hint_for_a_recreated_topic_names_where_the_next_run_starts(start, words):
    brokers = FakeBrokers()
    brokers.add_topic("orders", records=5)
    topic = LandTopic(build_declared(CONTEXT, DESIRED).landing, brokers)
    topic.read_firsts({}, start=start)
    assert topic.count_partitions() == 1
    brokers.add_topic("orders", records=3)
    with pytest.raises(RefusedError, match="topic orders was recreated while pipeline/orders ran") as error:
        topic.count_partitions()
    assert "seamark pipelines run orders" in error.value.hint
    assert words in error.value.hint


def test_words_of_a_file_become_a_landing():
    declared = build_declared(CONTEXT, replace(DESIRED, mode="upsert", key=("id",), start="latest", every=10.0))
    assert (declared.landing.mode, declared.landing.owner, declared.start) == ("upsert", "pipeline/orders", "latest")
    assert "hidden" not in repr(declared)


def test_landing_in_a_lake_has_no_dsn_and_delta_for_a_store():
    desired = replace(DESIRED, target=TargetRef("lake", "lake"), date="at", columns=(DesiredColumn("at", "timestamp"),))
    declared = build_declared(CONTEXT, desired)
    assert (declared.landing.store, declared.landing.date_from) == ("delta", "at")
    assert (declared.where, declared.settings) == ("lake", LAKE)
    assert "hidden" not in repr(declared)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"target": TargetRef("database", "store")}, "context dev has no database store"),
        ({"target": TargetRef("lake", "sea")}, "context dev has no lake sea"),
        ({"date": "id"}, "to.date is supported only in a lake"),
        ({"mode": "replace"}, "invalid value 'replace' for mode"),
        ({"format": "avro"}, "invalid value 'avro' for format"),
        ({"dead_letters": DesiredDeadLetters(max="some")}, "invalid value 'some' for on_error.dead_letter.max"),
        ({"start": "stable"}, "invalid value 'stable' for"),
        ({"columns": (DesiredColumn("id", "int; DROP TABLE x"),)}, "invalid type"),
        ({"mode": "upsert"}, "requires to.key"),
    ],
)
def test_word_that_means_nothing_is_refused_with_its_place(change, words):
    with pytest.raises(SpecError, match=words) as error:
        build_declared(CONTEXT, replace(DESIRED, **change))
    assert "pipelines.yaml:3" in error.value.cause


def build_plan(landed, *, statements=()):
    bounds = {0: LogOffsets(10, 50), 1: LogOffsets(0, 30)}
    return LandPlan(build_declared(CONTEXT, DESIRED), "id", build_standings(bounds, landed), statements)


@pytest.mark.parametrize(
    ("landed", "state", "behind"),
    [
        ({}, LandState.NEW, 70),
        ({0: 20, 1: 30}, LandState.BEHIND, 30),
        ({0: 50, 1: 30}, LandState.LANDED, 0),
        ({0: 4, 1: 30}, LandState.LOST, 46),
        # A partition that was added since.
        ({0: 50}, LandState.BEHIND, 30),
    ],
)
def test_state_is_told_by_ledger_and_brokers(landed, state, behind):
    plan = build_plan(landed)
    assert (plan.state, plan.behind) == (state, behind)
    assert plan.to_dict()["state"] == state.value


def test_landing_with_lost_records_is_not_run():
    landings = Pipelines(CONTEXT, kafka=lambda: pytest.fail("nobody is asked"), load=lambda paths, allow_python: ())
    with pytest.raises(RefusedError, match="were deleted before pipeline orders processed them") as error:
        landings.run(build_plan({0: 4, 1: 30}))
    assert error.value.cause == "partition 0: 6"
    assert error.value.hint.endswith("seamark offsets move pipeline/orders --to earliest")


def test_plan_shows_statements_and_places():
    plan = build_plan({0: 20}, statements=("CREATE TABLE orders (id bigint)",))
    text = render_view(build_landing_view(plan), OutputFormat.TABLE)
    assert "Pipeline orders  orders → shop, orders (append)" in text
    assert "+ CREATE TABLE orders (id bigint)" in text
    assert "partition 0: at offset 20; offsets 10 to 50, lag 30" in text
    assert "partition 1: starts at earliest" in text
    assert "next: seamark pipelines run orders" in text
    listed = render_view(build_landings_view([plan], {}), OutputFormat.TABLE)
    assert "behind" in listed


class Ledger:
    def __init__(self, *entries):
        self.entries, self.placed = {entry.key: entry for entry in entries}, []

    def read(self):
        return self.entries

    def place(self, entries, *, gone=()):
        self.placed.append(([(one.key, one.next_offset) for one in entries], [one.key for one in gone]))


class Brokers:
    def __init__(self):
        self.asked = []

    def read_topics(self, names):
        return Reading(tuple(TopicStatus(name, f"id-{name}", ()) for name in names))

    def read_committed(self, groups, **_):
        self.asked.append(dict(groups))
        return Reading(tuple(GroupOffsets(name, {}) for name in groups))

    def alter_group_offsets(self, group, offsets):
        self.asked.append((group, dict(offsets)))


def open_routing(*entries):
    brokers, ledger = Brokers(), Ledger(*entries)

    def find(owner, *, may_begin=False):
        if owner != "pipeline/orders":
            raise NotFoundError(f"no ledger has offsets of {owner}")
        return ledger

    return LedgerBrokers(brokers, LedgerOffsets(find, read_topics=brokers.read_topics)), brokers, ledger


ENTRY = LedgerEntry("orders", "id-orders", 3, next_offset=40)
FORMER = LedgerEntry("orders", "id of one that is gone", 3, next_offset=9)


def test_ledger_is_read_as_a_group_is():
    routing, brokers, _ = open_routing(ENTRY, FORMER)
    found = routing.read_committed({"pipeline/orders": None, "billing": None})
    assert {one.group: dict(one.offsets) for one in found.items} == {
        "pipeline/orders": {("orders", 3): Committed(40)},
        "billing": {},
    }
    assert brokers.asked == [{"billing": None}]
    assert routing.read_committed({"pipeline/orders": [("orders", 1)]}).items[0].offsets == {}
    missing = routing.read_committed({"pipeline/none": None})
    assert isinstance(missing.failures["pipeline/none"], NotFoundError)
    assert [one.is_quiet for one in routing.read_members(["pipeline/orders"]).items] == [True]
    assert [one.is_quiet for one in routing.read_groups(["pipeline/orders"]).items] == [True]


def test_changes_go_to_where_the_offsets_are():
    routing, brokers, ledger = open_routing(ENTRY, FORMER)
    routing.alter_group_offsets("pipeline/orders", {("orders", 3): Committed(7)})
    routing.delete_group_offsets("pipeline/orders", [("orders", 3)])
    routing.delete_group("pipeline/orders")
    assert ledger.placed == [
        ([(ENTRY.key, 7)], []),
        ([], [ENTRY.key]),
        ([], [ENTRY.key, FORMER.key]),
    ]
    routing.alter_group_offsets("billing", {("orders", 3): Committed(7)})
    assert brokers.asked == [("billing", {("orders", 3): Committed(7)})]


def test_owner_and_group_have_each_others_names():
    assert [build_group_owner(name) for name in ("billing", "pipeline/orders")] == ["group/billing", "pipeline/orders"]
    assert [read_group_name(owner) for owner in ("group/billing", "pipeline/orders")] == ["billing", "pipeline/orders"]
    assert [is_group_owner(owner) for owner in ("group/a", "pipeline/a", "connect/a", "a")] == [
        True,
        True,
        False,
        False,
    ]


def test_database_that_is_away_is_told(monkeypatch):
    def refuse(self):
        raise UnreachableError("database shop does not answer")

    monkeypatch.setattr("seamark.tables.postgres.writer.LandingDatabase.read_if_any", refuse)
    monkeypatch.setattr("seamark.tables.delta.technology.DeltaStore.find", lambda self, owner: None)
    with pytest.raises(UnreachableError, match="can't read the offsets of pipeline/orders") as error:
        open_ledger(CONTEXT, "pipeline/orders")
    assert "shop: database shop does not answer" in error.value.cause


def test_ledger_is_looked_for_in_lakes_too(monkeypatch):
    monkeypatch.setattr("seamark.tables.postgres.writer.LandingDatabase.read_if_any", lambda self: {})
    ledger = Ledger(ENTRY)
    monkeypatch.setattr("seamark.tables.delta.technology.DeltaStore.find", lambda self, owner: ledger)
    assert open_ledger(CONTEXT, "pipeline/orders") is ledger
    monkeypatch.setattr("seamark.tables.delta.technology.DeltaStore.find", lambda self, owner: None)
    with pytest.raises(NotFoundError, match="no ledger has offsets of pipeline/orders") as error:
        open_ledger(CONTEXT, "pipeline/orders", may_begin=True)
    assert error.value.cause.endswith("shop, lake")


def test_offsets_in_two_stores_are_refused(monkeypatch):
    monkeypatch.setattr("seamark.tables.postgres.writer.LandingDatabase.read_if_any", lambda self: {ENTRY.key: ENTRY})
    monkeypatch.setattr("seamark.tables.postgres.writer.LandingDatabase.read", lambda self: {ENTRY.key: ENTRY})
    monkeypatch.setattr("seamark.tables.postgres.writer.LandingDatabase.read_place", lambda self: "shop since noon")
    monkeypatch.setattr("seamark.tables.delta.technology.DeltaStore.find", lambda self, owner: Ledger(ENTRY))
    with pytest.raises(RefusedError, match="pipeline/orders has offsets in several stores: shop, lake"):
        open_ledger(CONTEXT, "pipeline/orders")
    # A lake that was only told of the landing holds none of its offsets.
    monkeypatch.setattr("seamark.tables.delta.technology.DeltaStore.find", lambda self, owner: Ledger())
    assert open_ledger(CONTEXT, "pipeline/orders").read() == {ENTRY.key: ENTRY}
    # Two names of one database.
    twice = SimpleNamespace(name="dev", databases={"shop": SHOP, "again": SHOP}, lakes={})
    assert open_ledger(twice, "pipeline/orders").read() == {ENTRY.key: ENTRY}


def test_files_of_a_database_are_its_own_affair():
    with pytest.raises(UsageError, match="can't be compacted"):
        list_table_files(build_declared(CONTEXT, DESIRED))


def reveal():
    pytest.fail("no secret is needed")


LOCKED_SHOP = DatabaseSettings("shop", "jdbc:postgresql://db/shop", Secret(reveal))


@pytest.fixture
def fleet(tmp_path):
    with open_living_fleet(tmp_path, LivingConnect(), brokers=FakeBrokers()) as opened:
        object.__setattr__(opened.context, "databases", {"shop": LOCKED_SHOP})
        yield opened


def spec(*landings, id_="shop", **more):
    return Spec(id_, sections={"pipelines": landings}, **more)


def show(planned):
    return [(effect.sign.value, effect.subject, effect.words) for effect in planned.effects]


def list_registered(fleet):
    return {one.landing.name: one.landing.table for one in fleet.pipelines.declared()}


def test_plan_checks_pipelines(fleet):
    wrong = spec(replace(DESIRED, target=TargetRef("database", "store")))
    for refuse in (fleet.plan, fleet.check):
        with pytest.raises(SpecError, match="has no database store") as error:
            refuse(wrong)
        assert "pipelines.yaml:3" in error.value.cause
    assert fleet.check(spec(DESIRED)) == ()


def test_apply_fails_if_declared_pipelines_can_not_be_registered(fleet, monkeypatch):
    def fail():
        raise UnreachableError("the journal is on another planet")

    monkeypatch.setattr(fleet._world, "_read_registered", fail)
    planned = fleet.plan(spec(DESIRED))
    assert planned.plan.notes == (
        "pipelines were checked, but will not be registered: the journal is on another planet",
    )
    with pytest.raises(UnreachableError, match="on another planet"):
        fleet.apply(planned)
    assert fleet.plan(spec()).is_empty
    fleet.apply(fleet.plan(spec()))


def test_pipeline_is_registered_changed_and_forgotten_and_each_is_undone(fleet):
    planned = fleet.plan(spec(DESIRED))
    assert show(planned) == [("+", "pipeline/orders", "register: orders → orders")]
    assert planned.plan.locks == ("pipeline.orders",)
    first = fleet.apply(planned)
    assert first.is_done
    assert fleet.plan(spec(DESIRED)).is_empty
    # Where it stands in a file is no change.
    assert fleet.plan(spec(replace(DESIRED, place=FileLocation("other.yaml", 9)))).is_empty
    other = replace(DESIRED, table="archive", every=10.0)
    planned = fleet.plan(spec(other))
    assert show(planned)[0][:2] == ("~", "pipeline/orders")
    assert [(one.key, one.before, one.after) for one in planned.effects[0].fields] == [
        ("every", None, "10.0"),
        ("table", "orders", "archive"),
    ]
    second = fleet.apply(planned)
    (declared,) = fleet.pipelines.declared(names=["orders"])
    assert (declared.landing.table, declared.every_seconds) == ("archive", 10.0)
    assert str(declared.place) == "pipeline/orders in the journal"
    gone = fleet.plan(spec())
    assert show(gone) == [("-", "pipeline/orders", "unregister; its table and its offsets are kept")]
    third = fleet.apply(gone)
    assert list_registered(fleet) == {}
    for change, left in ((third, {"orders": "archive"}), (second, {"orders": "orders"}), (first, {})):
        assert fleet.apply(fleet.undo(change)).is_done
        assert list_registered(fleet) == left


def test_undo_is_refused_where_it_was_registered_anew_since(fleet):
    first = fleet.apply(fleet.plan(spec(DESIRED)))
    fleet.apply(fleet.plan(spec(replace(DESIRED, table="archive"))))
    with pytest.raises(RefusedError, match="the plan is out of date"):
        fleet.apply(fleet.undo(first))
    assert list_registered(fleet) == {"orders": "archive"}


def test_saved_plan_is_stale_where_it_was_registered_anew_since(fleet):
    saved = fleet.plan(spec(DESIRED)).plan
    fleet.apply(fleet.plan(spec(replace(DESIRED, table="archive"))))
    with pytest.raises(StalePlanError, match="the plan is out of date"):
        fleet.review(register(fleet, saved))


def test_pipeline_of_another_spec_is_not_taken_by_chance(fleet):
    fleet.apply(fleet.plan(spec(DESIRED)))
    other = spec(replace(DESIRED, table="archive"), id_="warehouse")
    with pytest.raises(RefusedError, match="another spec manages 1 of these pipelines") as error:
        fleet.plan(other)
    assert error.value.cause == "orders: spec shop"
    # The same in both is nobody's loss.
    assert fleet.plan(spec(DESIRED, id_="warehouse")).is_empty
    fleet.apply(fleet.plan(other, adopt=True))
    # Whose it was leaves it alone now.
    assert fleet.plan(spec()).is_empty
    assert list_registered(fleet) == {"orders": "archive"}


def test_plan_by_names_leaves_pipelines_alone(fleet):
    made = DesiredConnector("a", SOURCE_CONFIG, FileLocation("pipelines.yaml", 1))
    planned = fleet.plan(spec(DESIRED, connectors=(made,)), names=["a"])
    assert [subject for _, subject, _ in show(planned)] == ["connector/game/a"]
    assert "pipelines are not part of a plan by names: orders" in planned.plan.notes
    both = fleet.apply(fleet.plan(spec(DESIRED, connectors=(made,))))
    assert both.is_done
    # A name chooses connectors, and never a pipeline.
    with pytest.raises(NotFoundError, match="no connector orders"):
        fleet.plan(spec(DESIRED, connectors=(made,)), names=["orders"])
    assert fleet.plan(spec(DESIRED, connectors=(made,)), prune=True).is_empty


def test_what_is_not_registered_is_named(fleet):
    with pytest.raises(NotFoundError, match="the journal has no pipeline orders") as error:
        fleet.pipelines.declared(names=["orders"])
    assert error.value.cause == "no pipeline was found"
    with pytest.raises(JournalError, match="can't read pipeline orders"):
        read_body("orders", {**build_body(DESIRED), "of a later version": 1})
