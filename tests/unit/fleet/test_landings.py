"""Landings as files declare them, what a run would do, and the ledger in a group's place."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from seamark.context.secret import Secret
from seamark.context.settings import DatabaseSettings, LakeSettings
from seamark.errors import NotFoundError, RefusedError, SpecError, UnreachableError, UsageError
from seamark.fleet.landings.compaction import list_files
from seamark.fleet.landings.declared import build_declared
from seamark.fleet.landings.landings import Landings
from seamark.fleet.landings.status import LandPlan, LandState, build_standings
from seamark.fleet.landings.view import build_landing_view, build_landings_view
from seamark.fleet.ledgers import _Routing, open_ledger
from seamark.model.group import Committed, GroupOffsets, build_group_owner, is_group_owner, read_group_name
from seamark.model.ledger_entry import Entry
from seamark.model.reading import Reading
from seamark.model.spec import DesiredColumn, DesiredLanding, DesiredTopic, Place, Spec
from seamark.model.spot import Bounds
from seamark.model.topic import TopicStatus
from seamark.report import OutputFormat, render_view
from tests.unit.change.brokers import FakeBrokers
from tests.unit.fleet.living import LivingConnect, open_living_fleet

SHOP = DatabaseSettings("shop", "jdbc:postgresql://db/shop", Secret("postgresql://me:hidden@db/shop"))
LAKE = LakeSettings("lake", "s3://bucket/raw", secret_key=Secret("hidden"))
CONTEXT = SimpleNamespace(name="dev", databases={"shop": SHOP}, lakes={"lake": LAKE})
DESIRED = DesiredLanding(
    "orders",
    Place("pipelines.yaml", 3),
    topic="orders",
    database="shop",
    table="orders",
    columns=(DesiredColumn("id", "bigint"),),
)


def test_words_of_a_file_become_a_landing():
    declared = build_declared(CONTEXT, replace(DESIRED, mode="upsert", key=("id",), start="latest", every=10.0))
    assert (declared.landing.mode, declared.landing.owner, declared.start) == ("upsert", "pipeline/orders", "latest")
    assert "hidden" not in repr(declared)


def test_landing_in_a_lake_has_no_dsn_and_delta_for_a_store():
    desired = replace(DESIRED, database="", lake="lake", date="at", columns=(DesiredColumn("at", "timestamp"),))
    declared = build_declared(CONTEXT, desired)
    assert (declared.landing.store, declared.landing.date_from) == ("delta", "at")
    assert (declared.where, declared.url, declared.lake) == ("lake", "", LAKE)
    assert "hidden" not in repr(declared)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"database": "store"}, "the context dev has no database store"),
        ({"database": "", "lake": "sea"}, "the context dev has no lake sea"),
        ({"date": "id"}, "has to.date, which belongs to a lake's table"),
        ({"mode": "replace"}, "mode can't be 'replace'"),
        ({"format": "avro"}, "format can't be 'avro'"),
        ({"on_error": "skip"}, "on_error can't be 'skip'"),
        ({"start": "stable"}, "start can't be 'stable'"),
        ({"columns": (DesiredColumn("id", "int; DROP TABLE x"),)}, "can't be of type"),
        ({"mode": "upsert"}, "has no key"),
    ],
)
def test_word_that_means_nothing_is_refused_with_its_place(change, words):
    with pytest.raises(SpecError, match=words) as error:
        build_declared(CONTEXT, replace(DESIRED, **change))
    assert "pipelines.yaml:3" in error.value.cause


def build_plan(landed, *, statements=()):
    bounds = {0: Bounds(10, 50), 1: Bounds(0, 30)}
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
    landings = Landings(CONTEXT, kafka=lambda: pytest.fail("nobody is asked"))
    with pytest.raises(RefusedError, match="were deleted before orders has landed them") as error:
        landings.run(build_plan({0: 4, 1: 30}))
    assert error.value.cause == "partition 0: 6"
    assert error.value.hint.endswith("seamark offsets move pipeline/orders --to earliest")


def test_plan_shows_statements_and_places():
    plan = build_plan({0: 20}, statements=("CREATE TABLE orders (id bigint)",))
    text = render_view(build_landing_view(plan), OutputFormat.TABLE)
    assert "Landing orders  orders → shop, orders (append)" in text
    assert "+ CREATE TABLE orders (id bigint)" in text
    assert "partition 0: landed to 20; 10 to 50 are there, 30 to land" in text
    assert "partition 1: begins at earliest" in text
    assert "next: seamark land run orders" in text
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
            raise NotFoundError(f"no ledger knows {owner}")
        return ledger

    return _Routing(brokers, find), brokers, ledger


ENTRY = Entry("orders", "id-orders", 3, next_offset=40)
FORMER = Entry("orders", "id of one that is gone", 3, next_offset=9)


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

    monkeypatch.setattr("seamark.database.landing.LandingDatabase.read_if_any", refuse)
    monkeypatch.setattr("seamark.fleet.ledgers.find_landing", lambda settings, owner: None)
    with pytest.raises(UnreachableError, match="can't be told where pipeline/orders stands") as error:
        open_ledger(CONTEXT, "pipeline/orders")
    assert "shop: database shop does not answer" in error.value.cause


def test_ledger_is_looked_for_in_lakes_too(monkeypatch):
    monkeypatch.setattr("seamark.database.landing.LandingDatabase.read_if_any", lambda self: {})
    ledger = Ledger(ENTRY)
    monkeypatch.setattr("seamark.fleet.ledgers.find_landing", lambda settings, owner: ledger)
    assert open_ledger(CONTEXT, "pipeline/orders") is ledger
    monkeypatch.setattr("seamark.fleet.ledgers.find_landing", lambda settings, owner: None)
    with pytest.raises(NotFoundError, match="no ledger knows pipeline/orders") as error:
        open_ledger(CONTEXT, "pipeline/orders", may_begin=True)
    assert error.value.cause.endswith("shop, lake")


def test_files_of_a_database_are_its_own_affair():
    with pytest.raises(UsageError, match="has no files to compact"):
        list_files(build_declared(CONTEXT, DESIRED))


def test_plan_checks_pipelines_and_says_who_runs_them(tmp_path):
    brokers = FakeBrokers()
    brokers.add_topic("t", partitions=1)
    with open_living_fleet(tmp_path, LivingConnect(), brokers=brokers) as fleet:
        topics = (DesiredTopic("t", Place("pipelines.yaml", 1), partitions=2),)
        wrong = Spec("shop", topics=topics, landings=(DESIRED,))
        for refuse in (fleet.plan, fleet.check):
            with pytest.raises(SpecError, match="has no database shop") as error:
                refuse(wrong)
            assert "pipelines.yaml:3" in error.value.cause

        def reveal():
            pytest.fail("no secret is needed")

        settings = DatabaseSettings("shop", "jdbc:postgresql://db/shop", Secret(reveal))
        object.__setattr__(fleet.context, "databases", {"shop": settings})
        assert fleet.check(wrong) == ()
        planned = fleet.plan(wrong)
        assert [effect.subject for effect in planned.effects] == ["topic/t"]
        assert "pipelines are run by seamark land run: orders" in planned.plan.notes
