"""Ranges landed in a real PostgreSQL: once, whoever tries how often, and whoever is stopped in the middle."""

from __future__ import annotations

import hashlib
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

from seamark.errors import (
    AuthorizationError,
    DeadlineError,
    FencedError,
    NotFoundError,
    RejectedError,
    UnreachableError,
)
from seamark.tables.model import LedgerAdvance, LedgerEntry
from seamark.tables.postgres.connection import close_sessions, keep_session, take_session
from seamark.tables.postgres.table import LandingTable
from seamark.tables.postgres.writer import LandingDatabase

FIRST = LedgerEntry("orders", "id", 0, next_offset=5)


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
        assert list(sink.settle()) == []

    return hand_over


def test_range_is_landed_once_and_its_entry_moves_with_it(build, read):
    database = build()
    (entry,) = database.claim([FIRST])
    assert entry == replace(FIRST, epoch=entry.epoch)
    step = LedgerAdvance(entry, end=9)
    landed = database.land(step, write(b'1,"a"\n2,""\n', b"3,\n"), is_strict=True)
    assert (landed.rows, landed.is_repeat) == (3, False)
    again = database.land(step, write(b'1,"a"\n'), is_strict=True)
    assert (again.rows, again.is_repeat) == (0, True)
    # An empty string is not null.
    assert read() == [(1, "a"), (2, ""), (3, None)]
    assert database.read() == {entry.key: step.after}
    database.move_empty(LedgerAdvance(step.after, end=12))
    assert database.read()[entry.key].next_offset == 12


def test_whoever_was_taken_over_lands_nothing(build, read):
    database = build()
    (old,) = database.claim([FIRST])
    (new,) = database.claim([FIRST])
    with pytest.raises(FencedError) as error:
        database.land(LedgerAdvance(old, end=9), write(b"1,\n"), is_strict=True)
    assert error.value.cause == "another run has claimed it"
    database.land(LedgerAdvance(new, end=7), write(b"2,\n"), is_strict=True)
    with pytest.raises(FencedError) as error:
        database.land(LedgerAdvance(new, end=9), write(b"1,\n"), is_strict=True)
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
        database.land(LedgerAdvance(entry, end=9), hand_over, is_strict=True)
    assert (read(), database.read()) == ([], {entry.key: entry})


def test_row_that_is_refused_is_buried_with_the_others_landed(build, read):
    database = build()
    (entry,) = database.claim([FIRST])

    def hand_over(sink):
        assert sink.copy([b"1,\n"]) is None
        refusal = sink.copy([b"7,\n8,\n2,123456789\n"])
        assert (refusal.reason, refusal.line) == ("words: value too long for type character varying(8)", 3)
        assert "duplicate key" in sink.copy([b"1,\n"]).reason
        sink.bury([b'6,,"too long","\\x6b","\\x0076"\n7,,"again",,\n'])

    landed = database.land(LedgerAdvance(entry, end=9), hand_over, is_strict=False)
    assert (landed.rows, landed.dead) == (1, 2)
    assert read("dead", "record_offset, reason, record_key, record_value") == [
        (6, "too long", b"k", b"\0v"),
        (7, "again", None, None),
    ]


def test_newest_record_of_a_key_decides(build, read):
    database = build(key=("id",))
    (entry,) = database.claim([FIRST])
    first = b'1,"a",5,false\n2,"b",6,false\n1,"c",7,false\n3,"d",8,false\n3,,9,true\n'
    landed = database.land(LedgerAdvance(entry, end=10), write(first), is_strict=True)
    assert (landed.rows, landed.deleted) == (2, 0)
    assert read() == [(1, "c"), (2, "b")]
    second = b'2,,10,true\n1,"e",11,false\n4,,12,true\n4,"f",13,false\n'
    (entry,) = database.claim([FIRST])
    landed = database.land(LedgerAdvance(entry, end=14), write(second), is_strict=True)
    assert (landed.rows, landed.deleted) == (2, 1)
    assert read() == [(1, "e"), (4, "f")]


def refuse(dsn, place, rule):
    with psycopg.connect(dsn) as connection:
        connection.execute(f"ALTER TABLE {place}.rows {rule}")


def test_newest_good_record_of_a_key_stands(build, read, dsn, place):
    refuse(dsn, place, "ALTER words SET NOT NULL")
    refuse(dsn, place, "ADD CHECK (words <> 'no')")
    with psycopg.connect(dsn) as connection:
        connection.execute(f"INSERT INTO {place}.rows VALUES (3, 'was'), (9, 'held')")
        connection.execute(f"CREATE TABLE {place}.more (id int REFERENCES {place}.rows)")
        connection.execute(f"INSERT INTO {place}.more VALUES (9)")
    database = build(key=("id",))
    (entry,) = database.claim([FIRST])
    rows = [
        (1, "a", "false"),  # 5
        (2, "b", "false"),
        (1, "no", "false"),
        (1, "", "false"),  # 8
        (3, "no", "false"),
        (4, "", "false"),
        (5, "c", "false"),  # 11
        (6, "d", "false"),
        (6, "", "true"),
        (9, "", "true"),  # 14: other rows hold it
    ]
    text = "".join(f"{key},{words},{5 + place},{gone}\n" for place, (key, words, gone) in enumerate(rows))
    found = {}

    def hand_over(sink):
        assert sink.copy([text.encode()]) is None
        found.update(sink.settle())

    landed = database.land(LedgerAdvance(entry, end=15), hand_over, is_strict=False)
    assert sorted(found) == [7, 8, 9, 10, 14]
    assert "violates check constraint" in found[7]
    assert "violates not-null constraint" in found[8]
    assert "violates foreign key constraint" in found[14]
    assert read() == [(1, "a"), (2, "b"), (3, "was"), (5, "c"), (9, "held")]
    assert (landed.rows, landed.deleted) == (3, 0)


def test_all_but_the_oldest_record_of_a_key_may_be_refused(build, read, dsn, place):
    refuse(dsn, place, "ADD CHECK (words <> 'no')")
    database = build(key=("id",))
    (entry,) = database.claim([FIRST])
    text = "".join(f"{number % 2},{'no' if number else 'yes'},{number},false\n" for number in range(400))
    found = {}

    def hand_over(sink):
        assert sink.copy([text.encode()]) is None
        found.update(sink.settle())

    database.land(LedgerAdvance(entry, end=405), hand_over, is_strict=False)
    assert (sorted(found), read()) == (list(range(1, 400)), [(0, "yes")])


# One that does not compress, and one that is too deep.
NOISE = "".join(hashlib.sha256(str(number).encode()).hexdigest() for number in range(200))
DEEP = "[" * 200_000


@pytest.mark.parametrize(
    ("rule", "words", "reason"),
    [("ADD UNIQUE (words)", NOISE, "index row"), ("ALTER words TYPE jsonb USING NULL", DEEP, "stack depth limit")],
)
def test_row_that_is_too_much_for_the_table_is_refused(build, read, dsn, place, rule, words, reason):
    refuse(dsn, place, "ALTER words TYPE text")
    refuse(dsn, place, rule)
    database = build()
    (entry,) = database.claim([FIRST])
    found = []
    text = f'1,"{words}"\n'.encode()
    database.land(LedgerAdvance(entry, end=9), lambda sink: found.append(sink.copy([text])), is_strict=False)
    assert reason in found[0].reason
    assert read() == []


def test_what_a_trigger_raises_refuses_the_row(build, read, dsn, place):
    with psycopg.connect(dsn) as connection:
        connection.execute(
            f"CREATE FUNCTION {place}.judge() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN IF new.id = 2 THEN RAISE EXCEPTION 'not this one'; END IF; RETURN new; END $$"
        )
        connection.execute(
            f"CREATE TRIGGER judge BEFORE INSERT ON {place}.rows FOR EACH ROW EXECUTE FUNCTION {place}.judge()"
        )
    database = build()
    (entry,) = database.claim([FIRST])

    def hand_over(sink):
        assert sink.copy([b"1,a\n2,b\n"]).reason == "not this one"
        assert sink.copy([b"1,a\n"]) is None

    database.land(LedgerAdvance(entry, end=9), hand_over, is_strict=False)
    assert read() == [(1, "a")]


@pytest.mark.parametrize("is_ours", [True, False])
def test_text_is_utf8_whatever_the_session_speaks(build, read, dsn, place, monkeypatch, is_ours):
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    database = build()
    (entry,) = database.claim([FIRST])

    def hand_over(sink):
        if not is_ours:
            sink._connection.execute("SET LOCAL client_encoding = 'LATIN1'")
        assert sink.copy(["1,h\u00e9\u6587\n".encode()]) is None
        if is_ours:
            sink.bury(['6,,"no \u6587",,\n'.encode()])

    database.land(LedgerAdvance(entry, end=9), hand_over, is_strict=False)
    monkeypatch.delenv("PGCLIENTENCODING")
    assert read() == [(1, "h\u00e9\u6587")]
    assert read("dead", "reason") == ([("no \u6587",)] if is_ours else [])


def test_two_at_once_land_it_once(build, read):
    database = build()
    (entry,) = database.claim([FIRST])
    step, found = LedgerAdvance(entry, end=9), []
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
from seamark.tables.postgres.writer import LandingDatabase
from seamark.tables.model import LedgerAdvance
from seamark.tables.postgres.table import LandingTable
from seamark.tables.model import LedgerEntry
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
database.land(LedgerAdvance(LedgerEntry(*given["entry"]), given["end"]), write, is_strict=True)
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
        landed = database.land(LedgerAdvance(entry, end=9), write(b"2,\n"), is_strict=True)
        assert not landed.is_repeat
        zombie.send_signal(signal.SIGCONT)
        assert zombie.wait(30) == 1
        assert "closed the connection" in zombie.stderr.read()
    finally:
        zombie.kill()
        zombie.wait(30)
        zombie.stdin.close()
        zombie.stderr.close()
    assert read() == [(2, None)]


ENTERING = """
import json, os, signal, sys
import psycopg
from seamark.tables.postgres.ledger import Runner
from seamark.tables.postgres.ledger import Ledger
from seamark.tables.postgres.connection import build_session_name
from seamark.tables.model import LedgerEntry
given = json.loads(sys.stdin.readline())
entry, owner = LedgerEntry(*given["entry"]), given["owner"]
name = build_session_name(owner, *entry.key)
with psycopg.connect(given["dsn"], application_name=name) as connection:
    Ledger(owner).add(Runner(connection), entry)
    os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_process_that_is_stopped_while_it_enters_a_partition_is_ended(build, dsn, place):
    database = build(zombie_seconds=2.0)
    given = {"dsn": dsn, "owner": f"pipeline/{place}", "entry": [FIRST.topic, FIRST.topic_id, FIRST.partition, 3]}
    zombie = subprocess.Popen([sys.executable, "-c", ENTERING], stdin=subprocess.PIPE, text=True)
    found = []
    thread = threading.Thread(target=lambda: found.extend(database.claim([FIRST])))
    try:
        print(json.dumps(given), file=zombie.stdin, flush=True)
        os.waitid(os.P_PID, zombie.pid, os.WSTOPPED)
        thread.start()
        thread.join(60)
        assert [one.next_offset for one in found] == [FIRST.next_offset]
    finally:
        # Whoever waits for it goes on, so that a failure is told.
        zombie.kill()
        zombie.wait(30)
        thread.join(60)
        zombie.stdin.close()


def test_lost_answer_to_commit_is_asked_for(build, read, dsn, monkeypatch):
    database = build()
    (entry,) = database.claim([FIRST])

    class Cut(psycopg.Connection):
        def commit(self):
            super().commit()
            if outcomes:
                raise psycopg.OperationalError(outcomes.pop())

    outcomes = ["the connection was cut"]
    close_sessions()
    monkeypatch.setattr("psycopg.connect", Cut.connect)
    landed = database.land(LedgerAdvance(entry, end=9), write(b"1,\n"), is_strict=True)
    assert (landed.rows, outcomes) == (1, [])
    assert read() == [(1, None)]


def test_lost_commit_is_an_error(build, read, monkeypatch):
    database = build()
    (entry,) = database.claim([FIRST])

    class Cut(psycopg.Connection):
        def commit(self):
            if outcomes:
                self.close()
                raise psycopg.OperationalError(outcomes.pop())
            super().commit()

    outcomes = ["the connection was cut"]
    close_sessions()
    monkeypatch.setattr("psycopg.connect", Cut.connect)
    with pytest.raises(UnreachableError):
        database.land(LedgerAdvance(entry, end=9), write(b"1,\n"), is_strict=True)
    assert (read(), database.read()) == ([], {entry.key: entry})


def land(database, entry, text):
    """Land one record of an upsert, and return the entry behind it."""
    step = LedgerAdvance(entry, end=entry.next_offset + 1)
    database.land(step, write(f"{text},{entry.next_offset},f\n".encode()), is_strict=True)
    return step.after


def read_stages(dsn):
    """Read the temporary tables of this process's idle session, by name."""
    found = take_session(dsn, "test")
    query = "SELECT relname, oid FROM pg_class WHERE relnamespace = pg_my_temp_schema() AND relkind = 'r'"
    stages = dict(found.execute(query).fetchall())
    found.commit()
    keep_session(dsn, found)
    return stages


def test_ranges_of_a_process_share_a_session_and_its_stage(build, read, dsn):
    database = build(key=("id",))
    (entry,) = database.claim([FIRST])
    close_sessions()
    entry = land(database, entry, "1,a")
    stages = read_stages(dsn)
    assert list(stages) == ["seamark_stage"]
    for number in range(5):
        entry = land(database, entry, f"{number},b{number}")
    # PostgreSQL's catalog has no new row.
    assert read_stages(dsn) == stages
    assert read() == [(number, f"b{number}") for number in range(5)]


def test_stage_follows_the_table(build, read, dsn, place):
    database = build(key=("id",))
    (entry,) = database.claim([FIRST])
    entry = land(database, entry, "1,a")
    stages = read_stages(dsn)
    with psycopg.connect(dsn) as connection:
        connection.execute(f"ALTER TABLE {place}.rows ALTER words TYPE varchar(20)")
    entry = land(database, entry, f"1,{'b' * 20}")
    assert read_stages(dsn) != stages
    # A pipeline with other columns in the same process.
    other = LandingDatabase(dsn, LandingTable(f"{place}.rows", ("id",), key=("id",)), owner=f"pipeline/{place}")
    entry = land(other, entry, "2")
    land(database, entry, "3,c")
    assert read() == [(1, "b" * 20), (2, None), (3, "c")]


def test_session_that_the_server_ended_is_replaced(build, read, dsn):
    database = build(key=("id",))
    (entry,) = database.claim([FIRST])
    entry = land(database, entry, "1,a")
    idle = take_session(dsn, "test-idle")
    keep_session(dsn, idle)
    with psycopg.connect(dsn) as connection:
        assert connection.execute("SELECT pg_terminate_backend(%s, 5000)", [idle.info.backend_pid]).fetchone()[0]
    land(database, entry, "2,b")
    assert read() == [(1, "a"), (2, "b")]


def test_session_is_not_shared_with_a_child(build, dsn):
    database = build(key=("id",))
    (entry,) = database.claim([FIRST])
    land(database, entry, "1,a")
    child = os.fork()
    if not child:
        os._exit(7 if take_session(dsn, "child") is None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert read_stages(dsn)


def test_failed_range_leaves_no_session_in_a_transaction(build, dsn):
    database = build(key=("id",))
    (entry,) = database.claim([FIRST])
    close_sessions()
    with pytest.raises(AssertionError, match="value too long"):
        land(database, entry, "1,far too long")
    assert take_session(dsn, "test") is None


def test_table_that_is_not_there_is_named(dsn, place, build):
    build()
    database = LandingDatabase(dsn, LandingTable(f"{place}.none", ("id",)), owner=f"pipeline/{place}")
    (entry,) = database.claim([FIRST])
    with pytest.raises(NotFoundError, match="none does not match the pipeline"):
        database.land(LedgerAdvance(entry, end=9), write(b"1\n"), is_strict=True)


def test_ledger_that_is_not_there_is_told_in_our_words(build, dsn, monkeypatch):
    database = build()
    (entry,) = database.claim([FIRST])
    monkeypatch.setattr(database._ledger, "table", "seamark_none")
    with pytest.raises(NotFoundError, match="table seamark_none does not match the pipeline"):
        database.claim([FIRST])
    with pytest.raises(NotFoundError, match="table seamark_none does not match the pipeline"):
        database._is_landed(LedgerAdvance(entry, end=9))


def test_database_that_is_away_is_told_without_its_password():
    table = LandingTable("rows", ("id",))
    database = LandingDatabase("postgresql://me:hidden@127.0.0.1:1/x", table, owner="pipeline/x")
    with pytest.raises(UnreachableError) as error:
        database.read()
    assert "hidden" not in str(error.value) + str(error.value.cause)


def test_entry_that_somebody_else_holds_is_waited_for_and_told(build, dsn, place, monkeypatch):
    monkeypatch.setattr("seamark.tables.postgres.writer._HOLD_SECONDS", 3.0)
    database = build()
    (entry,) = database.claim([FIRST])
    with psycopg.connect(dsn) as other:
        other.execute("SELECT 1 FROM seamark_ledger WHERE owner = %s FOR UPDATE", [f"pipeline/{place}"])
        with pytest.raises(DeadlineError, match="orders-0 was locked by another session for 3 s"):
            database.move_empty(LedgerAdvance(entry, end=9))
    database.move_empty(LedgerAdvance(entry, end=9))


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
        assert database.land(LedgerAdvance(entry, end=9), write(b"1,\n"), is_strict=True).rows == 1
    finally:
        with psycopg.connect(dsn) as owner:
            owner.execute(f"DROP OWNED BY {role}")
            owner.execute(f"DROP ROLE {role}")


def test_missing_right_to_stage_rows_is_named(build, dsn, place):
    build()
    role, name = f"r_{place}", f"d_{place}"
    given = psycopg.conninfo.make_conninfo(dsn, user=role, password="x", dbname=name)
    with psycopg.connect(dsn, autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'x'")
        owner.execute(f"CREATE DATABASE {name}")
        owner.execute(f"REVOKE TEMPORARY ON DATABASE {name} FROM PUBLIC")
    try:
        with psycopg.connect(dsn, dbname=name) as owner:
            owner.execute(f"GRANT CREATE ON SCHEMA public TO {role}")
        with psycopg.connect(given) as own:
            own.execute("CREATE TABLE rows (id int PRIMARY KEY)")
        database = LandingDatabase(given, LandingTable("rows", ("id",), key=("id",)), owner="pipeline/x")
        database.prepare()
        (entry,) = database.claim([FIRST])
        with pytest.raises(AuthorizationError) as error:
            database.land(LedgerAdvance(entry, end=9), write(b"1,5,false\n"), is_strict=True)
        assert (
            error.value.hint
            == f"run GRANT TEMPORARY ON DATABASE {name}: mode: upsert and dead letters need temporary tables"
        )
    finally:
        with psycopg.connect(dsn, autocommit=True) as owner:
            owner.execute(f"DROP DATABASE {name} WITH (FORCE)")
            owner.execute(f"DROP ROLE {role}")
