"""Ordered upserts in a real PostgreSQL: whoever commits last, the newest record of each key is its row."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from uuid import uuid4

import psycopg
import pytest

from seamark.errors import FormatVersionError
from seamark.tables.model import LedgerAdvance, LedgerEntry, OrderKind, OrderTerm
from seamark.tables.postgres import upsert as landing_upsert
from seamark.tables.postgres.table import LandingTable
from seamark.tables.postgres.writer import LandingDatabase

ORDER = (OrderTerm("version", OrderKind.NUMBER),)
WAIT_SECONDS = 30


@pytest.fixture
def dsn(stack):
    return stack.postgres.dsn


@pytest.fixture
def schema(dsn):
    name = f"ordered_{uuid4().hex[:8]}"
    with psycopg.connect(dsn) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
        connection.execute(
            f"CREATE TABLE {name}.rows (id int PRIMARY KEY, version bigint, words varchar(8), _seamark_order numeric[])"
        )
    yield name
    with psycopg.connect(dsn) as connection:
        connection.execute("DELETE FROM seamark_tombstones WHERE table_name = %s", [f"{name}.rows"])
        connection.execute(f"DROP SCHEMA {name} CASCADE")


def quote(text):
    return '"' + text.replace('"', '""') + '"'


class Stage:
    """A pipeline of some partitions, each of which lands ranges of records one after the other."""

    def __init__(self, dsn, schema, *, partitions=2, **more):
        self.dsn, self.schema = dsn, schema
        table = LandingTable(
            f"{schema}.rows",
            ("id", "version", "words"),
            key=("id",),
            order=ORDER,
            dead_letters=f"{schema}.dead",
            **more,
        )
        self.database = LandingDatabase(dsn, table, owner=f"pipeline/{schema}")
        self.database.prepare()
        firsts = [LedgerEntry("rows", "id", number, next_offset=0) for number in range(partitions)]
        self.entries = {one.partition: one for one in self.database.claim(firsts)}

    def land(self, partition, *records, before_commit=None, is_strict=True):
        """Land records (id, version, words; words None is a delete). Returns what was landed."""
        entry = self.entries[partition]
        text = "".join(
            f"{id_},{version},{words or ''},{entry.next_offset + place},{'t' if words is None else 'f'}\n"
            for place, (id_, version, words) in enumerate(records)
        )

        def write(sink):
            assert sink.copy([text.encode()]) is None
            refused = list(sink.settle())
            if is_strict:
                assert refused == []
            elif refused:
                sink.bury(f"{offset},,{quote(reason)},,\n".encode() for offset, reason in refused)
            if before_commit is not None:
                before_commit()

        step = LedgerAdvance(entry, entry.next_offset + len(records))
        landed = self.database.land(step, write, is_strict=is_strict)
        self.entries[partition] = step.after
        return landed

    def read(self, columns="id, version, words", table="rows"):
        with psycopg.connect(self.dsn) as connection:
            return connection.execute(f"SELECT {columns} FROM {self.schema}.{table} ORDER BY 1").fetchall()

    def ask(self, text):
        with psycopg.connect(self.dsn) as connection:
            return connection.execute(text, [f"{self.schema}.rows"]).fetchall()


@pytest.fixture
def stage(dsn, schema):
    return Stage(dsn, schema)


def test_older_record_neither_replaces_nor_deletes(stage):
    stage.land(0, (7, 10, "new"))
    assert stage.land(1, (7, 5, "old")).rows == 0
    assert stage.read() == [(7, 10, "new")]
    assert stage.land(1, (7, 6, None)).deleted == 0
    assert stage.read() == [(7, 10, "new")]
    assert stage.land(1, (7, 11, "newer")).rows == 1
    assert stage.read() == [(7, 11, "newer")]


def test_older_record_does_not_bring_a_deleted_row_back(stage):
    stage.land(0, (7, 5, "first"))
    assert stage.land(1, (7, 9, None)).deleted == 1
    assert stage.land(0, (7, 8, "late")).rows == 0
    assert stage.read() == []
    # Also where nobody had the row when it was deleted.
    stage.land(1, (8, 9, None))
    stage.land(0, (8, 8, "late"))
    assert stage.read() == []
    stage.land(0, (8, 10, "again"))
    assert stage.read() == [(8, 10, "again")]


def test_equal_orders_are_decided_by_partition_and_offset(dsn, schema):
    for partitions in ((0, 1), (1, 0)):
        stage = Stage(dsn, schema)
        for partition in partitions:
            stage.land(partition, (7, 5, f"a{partition}"), (7, 5, f"b{partition}"))
        assert stage.read() == [(7, 5, "b1")]
        with psycopg.connect(dsn) as connection:
            connection.execute(f"TRUNCATE {schema}.rows")


def test_newest_of_a_range_counts_whatever_its_offset(stage):
    stage.land(0, (1, 3, "three"), (1, 9, "nine"), (1, 4, "four"), (2, 5, "x"), (2, 6, None), (2, 1, "old"))
    assert stage.read() == [(1, 9, "nine")]


def test_record_that_is_landed_again_fills_new_columns(stage):
    stage.land(0, (1, 3, "a"))
    stage.entries[0] = replace(stage.entries[0], next_offset=0)
    stage.database.place([stage.entries[0]])
    stage.entries[0] = stage.database.read()[stage.entries[0].key]
    assert stage.land(0, (1, 3, "b")).rows == 1
    assert stage.read() == [(1, 3, "b")]


def test_row_without_an_order_is_replaced(dsn, stage):
    with psycopg.connect(dsn) as connection:
        connection.execute(f"INSERT INTO {stage.schema}.rows VALUES (1, 99, 'before', NULL), (2, 99, 'before', NULL)")
    stage.land(0, (1, 3, "a"), (2, 3, None))
    assert stage.read() == [(1, 3, "a")]


class Meeting:
    """Two ranges: the first stands before its commit until the second waits for it, or has ended."""

    def __init__(self, stage):
        self.stage = stage
        self.is_ready, self.may_commit = threading.Event(), threading.Event()

    def hold(self):
        self.is_ready.set()
        assert self.may_commit.wait(WAIT_SECONDS)

    def run(self, first, second):
        with ThreadPoolExecutor(2) as pool:
            one = pool.submit(self.stage.land, 0, first, before_commit=self.hold)
            assert self.is_ready.wait(WAIT_SECONDS)
            other = pool.submit(self.stage.land, 1, second)
            self._await_waiting(other)
            self.may_commit.set()
            one.result(WAIT_SECONDS)
            other.result(WAIT_SECONDS)

    def _await_waiting(self, other):
        for _ in range(600):
            with psycopg.connect(self.stage.dsn) as connection:
                # Other tests land at the same time in the same server; this one's statements name its schema.
                waiting = connection.execute(
                    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name "
                    "LIKE 'seamark-pipeline-%%' AND query LIKE %s",
                    [f"%{self.stage.schema}%"],
                ).fetchone()[0]
            if waiting or other.done():
                return
            threading.Event().wait(0.05)
        raise AssertionError("the second range neither waited nor ended")


@pytest.mark.parametrize("before", [(), ((7, 1, "was"),)])
@pytest.mark.parametrize(
    ("first", "second", "left"),
    [
        ((7, 5, "old"), (7, 9, None), []),
        ((7, 9, None), (7, 5, "old"), []),
        ((7, 9, "new"), (7, 5, None), [(7, 9, "new")]),
        ((7, 5, None), (7, 9, "new"), [(7, 9, "new")]),
        ((7, 5, "old"), (7, 9, "new"), [(7, 9, "new")]),
        ((7, 9, "new"), (7, 5, "old"), [(7, 9, "new")]),
        ((7, 5, None), (7, 9, None), []),
    ],
)
def test_two_ranges_at_once_end_as_the_newest_says(stage, before, first, second, left):
    if before:
        stage.land(0, *before)
    Meeting(stage).run(first, second)
    assert stage.read() == left
    # What the deletes have left decides over what comes later.
    stage.land(0, (7, 2, "older"))
    assert stage.read() == left


def run_many(dsn, schema, seed, *, rounds=12, partitions=4, keys=12, size=15):
    """Land random ranges of all partitions at once. Returns the rows, and what they should be."""
    stage = Stage(dsn, schema, partitions=partitions)
    dice = random.Random(seed)
    wanted, ranges = {}, {number: [] for number in range(partitions)}
    for partition, batches in ranges.items():
        for batch in range(rounds):
            records = [
                (
                    dice.randrange(keys),
                    dice.randrange(40),
                    None if dice.random() < 0.3 else f"{partition}-{batch}-{one}",
                )
                for one in range(size)
            ]
            batches.append(records)
            for place, (id_, version, words) in enumerate(records):
                order = (version, partition, batch * size + place)
                wanted[id_] = max(wanted.get(id_, ((-1,), None, None)), (order, version, words), key=lambda one: one[0])

    def work(partition):
        for records in ranges[partition]:
            stage.land(partition, *records)

    with ThreadPoolExecutor(partitions) as pool:
        list(pool.map(work, ranges))
    return stage.read(), [(id_, version, words) for id_, (_, version, words) in sorted(wanted.items()) if words]


@pytest.mark.parametrize("seed", range(6))
def test_many_ranges_at_once_end_as_if_landed_in_order(dsn, schema, seed):
    found, wanted = run_many(dsn, schema, seed)
    assert found == wanted


def forget_comparison(monkeypatch):
    nothing, run = landing_upsert.sql.SQL(""), landing_upsert.Upsert._run

    def run_without(self, text, offsets, **parts):
        return run(self, text, offsets, **parts | {name: nothing for name in ("newer", "older") if name in parts})

    monkeypatch.setattr(landing_upsert.Upsert, "_run", run_without)


def forget_second_look(monkeypatch):
    monkeypatch.setattr(landing_upsert.Upsert, "_delete_again", lambda _, __: 0)


def forget_exclusive_lock(monkeypatch):
    monkeypatch.setattr(landing_upsert.Upsert, "_count_absent", lambda _: 0)


@pytest.mark.parametrize(
    ("bug", "before", "first", "second", "wrong"),
    [
        (forget_comparison, (), (7, 9, "new"), (7, 5, "old"), [(7, 5, "old")]),
        (forget_second_look, ((7, 1, "was"),), (7, 9, None), (7, 5, "old"), [(7, 5, "old")]),
        (forget_exclusive_lock, (), (7, 5, "old"), (7, 9, None), [(7, 5, "old")]),
    ],
)
def test_planted_bug_is_found(stage, monkeypatch, bug, before, first, second, wrong):
    bug(monkeypatch)
    if before:
        stage.land(0, *before)
    Meeting(stage).run(first, second)
    assert stage.read() == wrong


def test_record_older_than_forgotten_deletes_is_a_bad_record(dsn, schema):
    stage = Stage(dsn, schema, tombstone_seconds=3600)
    stage.land(0, (1, 5, "a"), (2, 5, "b"))
    stage.land(0, (1, 20, None))
    ago = "UPDATE seamark_tombstones SET deleted_at = now() - interval '2 h' WHERE table_name = %s RETURNING 1"
    assert len(stage.ask(ago)) == 1
    assert stage.database.purge_tombstones() == 1
    assert stage.database.purge_tombstones() == 0
    # 1 may be the row that was deleted, and 3 may have been one; 2 is there and can be compared.
    landed = stage.land(
        1, (1, 19, "back"), (1, 18, "back"), (2, 6, "newer"), (3, 7, "old"), (4, 21, "c"), is_strict=False
    )
    assert (landed.rows, landed.dead) == (2, 3)
    assert stage.read() == [(2, 6, "newer"), (4, 21, "c")]
    reasons = {reason for _, reason in stage.read("record_offset, reason", "dead")}
    assert reasons == {"the record is older than the tombstones that are kept (to.tombstones), and its key has no row"}


def test_delete_stands_where_its_newer_record_is_refused(stage):
    stage.land(0, (1, 1, "a"))
    with psycopg.connect(stage.dsn) as connection:
        connection.execute(f"ALTER TABLE {stage.schema}.rows ADD CHECK (words <> 'bad')")
    landed = stage.land(1, (1, 2, None), (1, 3, "bad"), (2, 2, None), (2, 3, "bad"), is_strict=False)
    assert (landed.rows, landed.deleted) == (0, 1)
    stage.land(0, (1, 1, "a"), (2, 1, "b"))
    assert stage.read() == []


@pytest.mark.parametrize("version", [0, 2])
def test_tombstones_of_another_version_are_refused(stage, version):
    stage.land(0, (1, 1, None))
    stage.ask(f"UPDATE seamark_tombstones SET format_version = {version} WHERE table_name = %s RETURNING 1")
    with pytest.raises(FormatVersionError, match=f"tombstone format version {version}"):
        stage.database.prepare()


def test_orders_of_every_kind_compare_as_their_columns_do(dsn, schema):
    kinds = {
        "numeric": (OrderKind.NUMBER, ["-1", "0.0000000000000000001", "12345678901234567890123"]),
        "double precision": (OrderKind.FLOAT, ["-1e300", "0.1", "0.10000000000000002", "1e300"]),
        "timestamptz": (OrderKind.TIME, ["1900-01-01Z", "2026-01-01 00:00:00.000001Z", "2026-01-01 00:00:00.000002Z"]),
        "date": (OrderKind.TIME, ["0044-03-15 BC", "2026-01-01", "2026-01-02"]),
    }
    for kind, (order, values) in kinds.items():
        with psycopg.connect(dsn) as connection:
            connection.execute(f"DROP TABLE {schema}.rows")
            connection.execute(
                f"CREATE TABLE {schema}.rows (id int PRIMARY KEY, version {kind}, words text, _seamark_order numeric[])"
            )
        table = LandingTable(
            f"{schema}.rows", ("id", "version", "words"), key=("id",), order=(OrderTerm("version", order),)
        )
        database = LandingDatabase(dsn, table, owner=f"pipeline/{schema}-{kind}")
        database.prepare()
        (entry,) = database.claim([LedgerEntry("rows", "id", 0, next_offset=0)])
        for place in (2, 0, 1):
            step = LedgerAdvance(entry, entry.next_offset + 1)

            def write(sink, text=f"1,{values[place]},{place},{step.entry.next_offset},f\n"):
                assert sink.copy([text.encode()]) is None
                assert list(sink.settle()) == []

            database.land(step, write, is_strict=True)
            entry = step.after
        with psycopg.connect(dsn) as connection:
            assert connection.execute(f"SELECT words FROM {schema}.rows").fetchone() == ("2",), kind
