"""Ranges landed in a real PostgreSQL: once, whoever tries how often, and whoever is stopped in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from uuid import uuid4

import psycopg
import pytest

from seamark.database.landing import LandingDatabase
from seamark.database.landing_rows import DeadLetter, LandingTable
from seamark.errors import DeadlineError, FencedError, NotFoundError, RejectedError, UnreachableError
from seamark.model.ledger_entry import Entry, Step

FIRST = Entry("orders", "id", 0, next_offset=5)


@pytest.fixture
def dsn(stack):
    return stack.postgres.dsn


@pytest.fixture
def place(dsn):
    """A schema of one test's own, with a table in it."""
    schema = f"land_{uuid4().hex[:8]}"
    with psycopg.connect(dsn) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
        connection.execute(f"CREATE TABLE {schema}.rows (id int PRIMARY KEY, words varchar(8))")
    yield schema
    with psycopg.connect(dsn) as connection:
        connection.execute(f"DROP SCHEMA {schema} CASCADE")


@pytest.fixture
def build(dsn, place):
    def make(*, key=(), **more):
        table = LandingTable(f"{place}.rows", ("id", "words"), key=key, dead_letters=f"{place}.dead")
        database = LandingDatabase(dsn, table, owner=f"pipeline/{place}", **more)
        database.prepare()
        return database

    return make


@pytest.fixture
def read(dsn, place):
    def rows(table="rows", columns="*"):
        with psycopg.connect(dsn) as connection:
            return connection.execute(f"SELECT {columns} FROM {place}.{table} ORDER BY 1").fetchall()

    return rows


def write(*texts):
    def hand_over(sink):
        assert sink.copy(texts) is None

    return hand_over


def test_range_is_landed_once_and_its_entry_moves_with_it(build, read):
    database = build()
    (entry,) = database.claim([FIRST])
    assert entry == replace(FIRST, epoch=entry.epoch)
    step = Step(entry, end=9)
    landed = database.land(step, write(b'1,"a"\n2,""\n', b"3,\n"), is_strict=True)
    assert (landed.rows, landed.is_repeat) == (3, False)
    again = database.land(step, write(b'1,"a"\n'), is_strict=True)
    assert (again.rows, again.is_repeat) == (0, True)
    # An empty string is not null.
    assert read() == [(1, "a"), (2, ""), (3, None)]
    assert database.read() == {entry.key: step.after}
    database.move_empty(Step(step.after, end=12))
    assert database.read()[entry.key].next_offset == 12


def test_whoever_was_taken_over_lands_nothing(build, read):
    database = build()
    (old,) = database.claim([FIRST])
    (new,) = database.claim([FIRST])
    with pytest.raises(FencedError) as error:
        database.land(Step(old, end=9), write(b"1,\n"), is_strict=True)
    assert error.value.cause == "another run has taken it"
    database.land(Step(new, end=7), write(b"2,\n"), is_strict=True)
    with pytest.raises(FencedError) as error:
        database.land(Step(new, end=9), write(b"1,\n"), is_strict=True)
    assert error.value.cause == "its offset was moved to 7"
    assert read() == [(2, None)]


def test_what_fails_in_the_middle_leaves_nothing(build, read):
    database = build()
    (entry,) = database.claim([FIRST])

    def hand_over(sink):
        assert sink.copy([b"1,\n"]) is None
        refusal = sink.copy([b"2,\nx,\n"])
        assert ("invalid input syntax" in refusal.reason, refusal.line) == (True, 2)
        raise RejectedError("no row")

    with pytest.raises(RejectedError, match="no row"):
        database.land(Step(entry, end=9), hand_over, is_strict=True)
    assert (read(), database.read()) == ([], {entry.key: entry})


def test_row_that_is_refused_is_buried_with_the_others_landed(build, read):
    database = build()
    (entry,) = database.claim([FIRST])

    def hand_over(sink):
        assert sink.copy([b"1,\n"]) is None
        refusal = sink.copy([b"7,\n8,\n2,123456789\n"])
        assert ("too long" in refusal.reason, refusal.line) == (True, 3)
        assert "duplicate key" in sink.copy([b"1,\n"]).reason
        sink.bury([DeadLetter(6, None, "too long", b"k", b"\0v"), DeadLetter(7, None, "again", None, None)])

    landed = database.land(Step(entry, end=9), hand_over, is_strict=False)
    assert (landed.rows, landed.dead) == (1, 2)
    assert read("dead", "record_offset, reason, record_key, record_value") == [
        (6, "too long", b"k", b"\0v"),
        (7, "again", None, None),
    ]


def test_newest_record_of_a_key_decides(build, read):
    database = build(key=("id",))
    (entry,) = database.claim([FIRST])
    first = b'1,"a",5,false\n2,"b",6,false\n1,"c",7,false\n3,"d",8,false\n3,,9,true\n'
    landed = database.land(Step(entry, end=10), write(first), is_strict=True)
    assert (landed.rows, landed.deleted) == (2, 0)
    assert read() == [(1, "c"), (2, "b")]
    second = b'2,,10,true\n1,"e",11,false\n4,,12,true\n4,"f",13,false\n'
    (entry,) = database.claim([FIRST])
    landed = database.land(Step(entry, end=14), write(second), is_strict=True)
    assert (landed.rows, landed.deleted) == (2, 1)
    assert read() == [(1, "e"), (4, "f")]


def test_two_at_once_land_it_once(build, read):
    database = build()
    (entry,) = database.claim([FIRST])
    step, found = Step(entry, end=9), []
    text = b"".join(b"%d,\n" % number for number in range(20_000))

    def land():
        found.append(database.land(step, write(text), is_strict=True).is_repeat)

    threads = [threading.Thread(target=land) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(found) == [False, True, True, True]
    assert len(read()) == 20_000


STOPPED = """
import json, os, signal, sys
from seamark.database.landing import LandingDatabase
from seamark.model.ledger_entry import Step
from seamark.database.landing_rows import LandingTable
from seamark.model.ledger_entry import Entry
given = json.loads(sys.stdin.readline())
table = LandingTable(given["table"], ("id", "words"))
def write(sink):
    if given["is_copying"]:
        with sink._connection.cursor() as cursor, cursor.copy(sink._statement) as rows:
            rows.write(b"1,\\n")
            os.kill(os.getpid(), signal.SIGSTOP)
    else:
        sink.copy([b"1,\\n"])
        os.kill(os.getpid(), signal.SIGSTOP)
database = LandingDatabase(given["dsn"], table, owner=given["owner"])
database.land(Step(Entry(*given["entry"]), given["end"]), write, is_strict=True)
"""


@pytest.mark.parametrize("is_copying", [False, True])
def test_process_that_is_stopped_in_its_transaction_is_ended(build, read, dsn, place, is_copying):
    """Also inside of COPY, where no timeout of PostgreSQL's reaches it."""
    database = build(zombie_seconds=3.0)
    (entry,) = database.claim([FIRST])
    given = {
        "dsn": dsn,
        "table": f"{place}.rows",
        "owner": f"pipeline/{place}",
        "entry": [entry.topic, entry.topic_id, entry.partition, entry.next_offset, entry.epoch, entry.moves],
        "end": 9,
        "is_copying": is_copying,
    }
    zombie = subprocess.Popen([sys.executable, "-c", STOPPED], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        print(json.dumps(given), file=zombie.stdin, flush=True)
        os.waitid(os.P_PID, zombie.pid, os.WSTOPPED)
        landed = database.land(Step(entry, end=9), write(b"2,\n"), is_strict=True)
        assert not landed.is_repeat
        zombie.send_signal(signal.SIGCONT)
        assert zombie.wait(30) == 1
        assert "broke the connection off" in zombie.stderr.read()
    finally:
        zombie.kill()
        zombie.wait(30)
        zombie.stdin.close()
        zombie.stderr.close()
    assert read() == [(2, None)]


def test_lost_answer_to_commit_is_asked_for(build, read, dsn, monkeypatch):
    database = build()
    (entry,) = database.claim([FIRST])

    class Cut(psycopg.Connection):
        def __exit__(self, kind, error, trace):
            super().__exit__(kind, error, trace)
            if kind is None and outcomes:
                raise psycopg.OperationalError(outcomes.pop())

    outcomes = ["the connection was cut"]
    monkeypatch.setattr("psycopg.connect", Cut.connect)
    landed = database.land(Step(entry, end=9), write(b"1,\n"), is_strict=True)
    assert (landed.rows, outcomes) == (1, [])
    assert read() == [(1, None)]


def test_lost_commit_is_an_error(build, read, monkeypatch):
    database = build()
    (entry,) = database.claim([FIRST])

    class Cut(psycopg.Connection):
        def __exit__(self, kind, error, trace):
            if kind is None and outcomes:
                self.close()
                raise psycopg.OperationalError(outcomes.pop())
            super().__exit__(kind, error, trace)

    outcomes = ["the connection was cut"]
    monkeypatch.setattr("psycopg.connect", Cut.connect)
    with pytest.raises(UnreachableError):
        database.land(Step(entry, end=9), write(b"1,\n"), is_strict=True)
    assert (read(), database.read()) == ([], {entry.key: entry})


def test_table_that_is_not_there_is_named(dsn, place, build):
    build()
    database = LandingDatabase(dsn, LandingTable(f"{place}.none", ("id",)), owner=f"pipeline/{place}")
    (entry,) = database.claim([FIRST])
    with pytest.raises(NotFoundError, match="is not as the landing wants it"):
        database.land(Step(entry, end=9), write(b"1\n"), is_strict=True)


def test_database_that_is_away_is_told_without_its_password():
    table = LandingTable("rows", ("id",))
    database = LandingDatabase("postgresql://me:hidden@127.0.0.1:1/x", table, owner="pipeline/x")
    with pytest.raises(UnreachableError) as error:
        database.read()
    assert "hidden" not in str(error.value) + str(error.value.cause)


def test_entry_that_somebody_else_holds_is_waited_for_and_told(build, dsn, place, monkeypatch):
    monkeypatch.setattr("seamark.database.landing._HOLD_SECONDS", 3.0)
    database = build()
    (entry,) = database.claim([FIRST])
    with psycopg.connect(dsn) as other:
        other.execute("SELECT 1 FROM seamark_ledger WHERE owner = %s FOR UPDATE", [f"pipeline/{place}"])
        with pytest.raises(DeadlineError, match="orders-0 was held by another session for 3 s"):
            database.move_empty(Step(entry, end=9))
    database.move_empty(Step(entry, end=9))


def test_role_without_the_right_to_make_tables_uses_those_that_are_there(build, dsn, place):
    build()
    role = f"r_{place}"
    with psycopg.connect(dsn) as owner:
        owner.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'x'")
        owner.execute(f"GRANT USAGE ON SCHEMA {place} TO {role}")
        owner.execute(f"GRANT SELECT, INSERT, UPDATE ON seamark_ledger, {place}.rows, {place}.dead TO {role}")
        owner.execute(f"ALTER ROLE {role} SET default_transaction_isolation = 'repeatable read'")
    try:
        given = psycopg.conninfo.make_conninfo(dsn, user=role, password="x")
        table = LandingTable(f"{place}.rows", ("id", "words"), dead_letters=f"{place}.dead")
        database = LandingDatabase(given, table, owner=f"pipeline/{place}")
        database.prepare()
        (entry,) = database.claim([FIRST])
        assert database.land(Step(entry, end=9), write(b"1,\n"), is_strict=True).rows == 1
    finally:
        with psycopg.connect(dsn) as owner:
            owner.execute(f"DROP OWNED BY {role}")
            owner.execute(f"DROP ROLE {role}")
