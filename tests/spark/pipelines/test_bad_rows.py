"""Bad records in bulk, in a real PostgreSQL: which of them are dead letters, and how many savepoints that takes."""

from __future__ import annotations

from uuid import uuid4

import psycopg
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seamark.errors import AuthorizationError, RejectedError
from seamark.pipelines.spark_frame import KEY, REASON, TIMESTAMP, VALUE
from seamark.pipelines.spark_postgres import write_rows
from seamark.tables.definition import DeadLetters, LandColumn, Landing, Mode
from seamark.tables.model import DELETED, OFFSET, LedgerAdvance, LedgerEntry
from seamark.tables.postgres.stage_checks import MOST
from seamark.tables.postgres.technology import build_landing_table
from seamark.tables.postgres.writer import LandingDatabase

NAMES = ("id", "words", "other")
UPSERT = {"mode": Mode.UPSERT, "key": ("id",)}


def build(rows, *, first=0):
    """A batch as Spark hands it over, of (id, words, other); words None with upserts is no delete."""
    count = len(rows)
    return pa.RecordBatch.from_pydict(
        {
            "id": pa.array([row[0] for row in rows], pa.int64()),
            "words": pa.array([row[1] for row in rows], pa.string()),
            "other": pa.array([row[2] for row in rows], pa.string()),
            OFFSET: pa.array(range(first, first + count), pa.int64()),
            REASON: pa.array([None] * count, pa.string()),
            DELETED: pa.array([len(row) > 3 for row in rows]),
            TIMESTAMP: pa.array([0] * count, pa.timestamp("us", "UTC")),
            KEY: pa.array([b"k"] * count, pa.binary()),
            VALUE: pa.array([repr(row).encode() for row in rows], pa.binary()),
        }
    )


class Place:
    """A schema with a table, and a pipeline that lands in it."""

    def __init__(self, dsn, monkeypatch):
        self.dsn, self.name = dsn, f"bad_{uuid4().hex[:8]}"
        self.savepoints = [0]
        whole = psycopg.Connection.transaction

        def count(connection, *given, **named):
            self.savepoints[-1] += connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE
            return whole(connection, *given, **named)

        monkeypatch.setattr(psycopg.Connection, "transaction", count)
        self.run(f"CREATE SCHEMA {self.name}")

    def run(self, *statements):
        with psycopg.connect(self.dsn) as connection:
            connection.execute(f"SET search_path = {self.name}")
            for statement in statements:
                connection.execute(statement)

    def make(self, columns, *more):
        self.run(f"CREATE TABLE rows ({columns})", *more)
        return self

    def land(self, rows, *, most="100%", size=1000, dsn=None, **more):
        """Land rows in batches. The dead letters of the whole are in `dead` afterwards."""
        kinds = {"id": "bigint", "words": "text", "other": "text"}
        landing = Landing(
            self.name,
            topic="t",
            table=f"{self.name}.rows",
            columns=tuple(LandColumn(name, kind) for name, kind in kinds.items()),
            dead_letters=DeadLetters(f"{self.name}.dead", most),
            **more,
        )
        database = LandingDatabase(dsn or self.dsn, build_landing_table(landing), owner=f"pipeline/{self.name}")
        database.prepare()
        (entry,) = database.claim([LedgerEntry("t", "id", 0, next_offset=0)])
        first = entry.next_offset
        batches = [build(rows[at : at + size], first=first + at) for at in range(0, len(rows), size)]
        step = LedgerAdvance(entry, end=first + len(rows))
        self.savepoints.append(0)
        self.database, self.step = database, step
        try:
            return database.land(step, lambda sink: write_rows(landing, sink, batches, step=step), is_strict=False)
        finally:
            assert self.savepoints[-1] <= MOST

    def read(self, columns="id, words, other", table="rows"):
        with psycopg.connect(self.dsn) as connection:
            text = f"SELECT {columns} FROM {self.name}.{table} ORDER BY 1, 2"
            return connection.execute(text).fetchall()

    @property
    def dead(self):
        return dict(self.read("record_offset, reason", "dead"))

    def remove(self):
        with psycopg.connect(self.dsn) as connection:
            connection.execute(f"DROP SCHEMA {self.name} CASCADE")
        self.forget()

    def forget(self):
        """Delete the pipeline's entries of the ledger, which a test that never landed may not have."""
        with psycopg.connect(self.dsn) as connection:
            if connection.execute("SELECT to_regclass('seamark_ledger')").fetchone()[0]:
                connection.execute("DELETE FROM seamark_ledger WHERE owner = %s", [f"pipeline/{self.name}"])


@pytest.fixture
def place(stack, monkeypatch):
    made = Place(stack.postgres.dsn, monkeypatch)
    yield made
    made.remove()


def rows(count, bad=(), *, words="ok", wrong="no"):
    return [(number, wrong if number in bad else words, None) for number in range(count)]


SPREAD = set(range(0, 3000, 10))
RULES = {
    "check": ("words text CHECK (words <> 'no')", "violates check constraint"),
    "not null": ("words text NOT NULL", "violates not-null constraint"),
    "length": ("words varchar(2)", "words: value too long for type character varying(2)"),
    "date": ("words date", "words: invalid input syntax for type date"),
    "json": ("words jsonb", "words: invalid input syntax for type jsonb"),
    "enum": ("words mood", "words: invalid input value for enum"),
    "foreign key": ("words text REFERENCES others", "violates foreign key constraint"),
    "deferred": ("words text REFERENCES others DEFERRABLE INITIALLY DEFERRED", "violates foreign key constraint"),
    "default": ("words text, more int DEFAULT 3 CHECK (more < 5), CHECK (words <> 'no' OR more > 3)", "check"),
    "whole row": ("words text, CHECK (rows IS NOT NULL AND words <> 'no' OR words <> 'no')", "check"),
}
TEXTS = {
    "not null": ("ok", None),
    "length": ("ok", "too long"),
    "date": ("2026-11-17", "no"),
    "json": ("{}", "no"),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("more", [{}, UPSERT], ids=["append", "upsert"])
def test_many_records_that_break_a_rule_take_few_savepoints(place, rule, more):
    columns, reason = RULES[rule]
    place.run("CREATE TABLE others (id text PRIMARY KEY)", "INSERT INTO others VALUES ('ok')")
    place.run("CREATE TYPE mood AS ENUM ('ok', 'bad')")
    place.make(f"id bigint PRIMARY KEY, {columns}, other text")
    good, wrong = TEXTS.get(rule, ("ok", "no"))
    landed = place.land(rows(3000, SPREAD, words=good, wrong=wrong), **more)
    assert (landed.rows, landed.dead) == (2700, 300)
    assert place.savepoints[-1] <= 8
    assert set(place.dead) == SPREAD
    assert all(reason in one for one in place.dead.values()), set(place.dead.values())
    assert [number for number, *_ in place.read()] == [one for one in range(3000) if one not in SPREAD]


@pytest.mark.parametrize("size", [7, 1000])
def test_earliest_record_with_a_unique_value_stays(place, size):
    place.make("id bigint, words text, other text", "CREATE UNIQUE INDEX ON rows (lower(words)) WHERE id > 0")
    place.run("INSERT INTO rows VALUES (100, 'Taken', '')")
    given = [(1, "a", ""), (2, "A", ""), (3, "taken", ""), (4, "b", ""), (0, "a", ""), (0, "a", ""), (5, None, "")]
    given += [(6, None, ""), (7, "B", "")]
    place.land(given, size=size)
    assert set(place.dead) == {1, 2, 8}
    assert all("duplicate key value violates unique constraint" in one for one in place.dead.values())
    assert [one[:2] for one in place.read()] == [
        (0, "a"),
        (0, "a"),
        (1, "a"),
        (4, "b"),
        (5, None),
        (6, None),
        (100, "Taken"),
    ]


def test_nulls_are_duplicates_where_the_index_says_so(place):
    place.make("id bigint, words text, other text, UNIQUE NULLS NOT DISTINCT (words)")
    place.land([(1, None, ""), (2, None, ""), (3, "a", "")])
    assert (set(place.dead), [one[0] for one in place.read()]) == ({1}, [1, 3])


def test_record_that_refers_to_a_refused_one_is_refused(place):
    place.make("id bigint PRIMARY KEY, words text CHECK (words <> 'no'), other text, up bigint")
    place.run("ALTER TABLE rows DROP other, DROP up, ADD other bigint REFERENCES rows (id)")
    # 1 is the root; 3 is refused, and with it 4 and 5, in whichever sequence they come.
    place.land([(5, "a", "4"), (1, "a", None), (2, "a", "1"), (3, "no", "1"), (4, "a", "3"), (6, "a", "6")])
    assert set(place.dead) == {0, 3, 4}
    assert [one[0] for one in place.read()] == [1, 2, 6]


def test_column_without_a_default_that_records_do_not_have_refuses_all(place):
    place.make("id bigint, words text, other text, more int NOT NULL")
    with pytest.raises(RejectedError) as error:
        place.land(rows(20_000), most="50%")
    assert "20,000 of 20,000 records of t-0 can't be rows" in error.value.message
    assert 'null value in column "more"' in error.value.cause
    assert place.read() == []


TRIGGER = (
    """CREATE FUNCTION judge() RETURNS trigger LANGUAGE plpgsql AS
       $$ BEGIN IF new.words = 'no' THEN RAISE EXCEPTION 'not this one'; END IF; RETURN new; END $$""",
    "CREATE TRIGGER judge {} INSERT ON rows FOR EACH ROW EXECUTE FUNCTION judge()",
)


def add_trigger(place, when):
    place.run(TRIGGER[0], TRIGGER[1].format(when))


def test_what_only_the_server_knows_is_told_by_the_line_of_the_row(place):
    place.make("id bigint PRIMARY KEY, words text, other inet")
    add_trigger(place, "BEFORE")
    given = [(number, "ok", "10.0.0.1") for number in range(3000)]
    for number in range(0, 3000, 200):
        given[number] = (number, "no", "::1")
    for number in range(100, 3000, 200):
        given[number] = (number, "ok", "10.0.0")
    landed = place.land(given)
    assert (landed.rows, landed.dead) == (2970, 30)
    assert {one.partition(":")[0] for one in place.dead.values()} == {"not this one", "other"}
    assert place.dead[100] == 'other: invalid input syntax for type inet: "10.0.0"'


@pytest.mark.parametrize("more", [{}, UPSERT], ids=["append", "upsert"])
def test_more_than_savepoints_can_tell_stop_the_run_with_reason_and_count(place, more):
    place.make("id bigint PRIMARY KEY, words text, other inet")
    given = [(number, "ok", "x" if number % 10 == 0 else "::1") for number in range(3000)]
    with pytest.raises(RejectedError) as error:
        place.land(given, **more)
    assert "of 3,000 records of t-0 can't be rows of" in error.value.message
    assert "and there are more" in error.value.message
    assert "64 savepoints" in error.value.cause
    assert "other: invalid input syntax for type inet" in error.value.cause
    assert (place.read(), place.savepoints[-1]) == ([], MOST)


def test_row_without_a_line_is_found_by_halves(place):
    place.make("id bigint PRIMARY KEY, words text, other text")
    add_trigger(place, "AFTER")
    landed = place.land(rows(1000, {77, 700}), size=90)
    assert (landed.rows, place.dead) == (998, {77: "not this one", 700: "not this one"})


def test_upsert_that_a_trigger_refuses_leaves_the_record_before_it(place):
    place.make("id bigint PRIMARY KEY, words text, other text")
    add_trigger(place, "BEFORE")
    given = [(1, "a", ""), (2, "b", ""), (1, "no", ""), (2, "c", ""), (1, "no", ""), (3, "no", "")]
    place.land(given, **UPSERT)
    assert set(place.dead) == {2, 4, 5}
    assert place.read("id, words") == [(1, "a"), (2, "c")]


def test_exclusion_constraint_is_told_by_the_line(place):
    place.make("id bigint, words text, other int4range, EXCLUDE USING gist (other WITH &&)")
    place.land([(1, "", "[1,5]"), (2, "", "[4,8]"), (3, "", "[9,12]"), (4, "", "[10,11]"), (5, "", "x")])
    assert set(place.dead) == {1, 3, 4}
    assert [one[0] for one in place.read("id, words")] == [1, 3]


def test_referenced_table_that_can_not_be_read_is_left_to_the_server(place):
    role = f"r_{place.name}"
    place.run("CREATE TABLE others (id text PRIMARY KEY)", "INSERT INTO others VALUES ('ok')")
    place.make("id bigint PRIMARY KEY, words text REFERENCES others, other text")
    place.land([])
    place.run(f"CREATE ROLE {role} LOGIN PASSWORD 'x'", f"GRANT USAGE ON SCHEMA {place.name} TO {role}")
    place.run(f"GRANT SELECT, INSERT, UPDATE ON public.seamark_ledger, rows, dead TO {role}")
    given = psycopg.conninfo.make_conninfo(place.dsn, user=role, password="x")
    try:
        place.land(rows(500, {123}), dsn=given)
        assert set(place.dead) == {123}
    finally:
        place.run(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def test_row_that_row_security_hides_is_there_for_a_foreign_key(place):
    role = f"r_{place.name}"
    place.run("CREATE TABLE others (id text PRIMARY KEY)", "INSERT INTO others VALUES ('ok'), ('hidden')")
    place.make("id bigint PRIMARY KEY, words text REFERENCES others, other text")
    place.land([])
    place.run(f"CREATE ROLE {role} LOGIN PASSWORD 'x'", f"GRANT USAGE ON SCHEMA {place.name} TO {role}")
    place.run(f"GRANT SELECT, INSERT, UPDATE ON public.seamark_ledger, rows, dead, others TO {role}")
    place.run("ALTER TABLE others ENABLE ROW LEVEL SECURITY", "CREATE POLICY visible ON others USING (id = 'ok')")
    given = psycopg.conninfo.make_conninfo(place.dsn, user=role, password="x")
    try:
        place.land([(1, "ok", None), (2, "hidden", None), (3, "none", None)], dsn=given)
        assert set(place.dead) == {2}
    finally:
        place.run(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def test_domain_has_a_default_of_its_own(place):
    place.run("CREATE DOMAIN kind AS text DEFAULT 'plain' NOT NULL")
    place.make("id bigint PRIMARY KEY, words text, other text, more kind NOT NULL CHECK (more = 'plain')")
    place.land([(1, "a", None), (1, "b", None), (2, "c", None)])
    assert set(place.dead) == {1}
    assert place.read("id, more") == [(1, "plain"), (2, "plain")]


def test_rows_before_the_one_that_is_told_may_be_refused_too(place):
    """PostgreSQL evaluates generated columns of 1,000 rows before it adds them to an index."""
    place.make(
        "id bigint, words text, other int4range, more int GENERATED ALWAYS AS (1 / id) STORED, "
        "EXCLUDE USING gist (other WITH &&)"
    )
    place.land([(1, "", "[1,5]"), (2, "", "[4,8]"), (0, "", "[20,21]"), (4, "", "[30,31]")])
    assert set(place.dead) == {1, 2}
    assert [one[0] for one in place.read("id, words")] == [1, 4]


def test_upsert_names_the_reason_of_a_trigger_that_refuses_too_many(place):
    place.make("id bigint PRIMARY KEY, words text, other text")
    add_trigger(place, "BEFORE")
    with pytest.raises(RejectedError) as error:
        place.land(rows(3000, SPREAD), **UPSERT)
    assert "not this one" in error.value.cause
    assert place.read() == place.read("*", "dead") == []


def test_upsert_keeps_the_sequence_of_a_key(place):
    place.run("CREATE TABLE others (id text PRIMARY KEY)", "INSERT INTO others VALUES ('ok')")
    place.make("id bigint PRIMARY KEY, words text CHECK (words <> 'no'), other text REFERENCES others")
    place.run("INSERT INTO rows VALUES (3, 'was', NULL), (4, 'was', NULL)")
    given = [
        (1, "no", None),  # superseded by a good one: no dead letter
        (1, "a", None),
        (2, "b", "ok"),
        (2, "no", None),  # 3
        (2, "c", "none"),  # 4
        (3, "no", None),  # 5
        (4, None, None, "delete"),
        (4, "no", None),  # 7: the delete before it stands
    ]
    place.land(given, **UPSERT)
    assert set(place.dead) == {3, 4, 5, 7}
    assert place.read("id, words") == [(1, "a"), (2, "b"), (3, "was")]


def test_upsert_that_takes_the_unique_value_of_another_row_is_refused(place):
    place.make("id bigint PRIMARY KEY, words text UNIQUE, other text")
    place.run("INSERT INTO rows VALUES (1, 'a', NULL), (2, 'b', NULL), (3, 'c', NULL)")
    given = [
        (10, "a", None),  # 0: row 1 has it
        (11, "x", None),
        (12, "x", None),  # 2: the record before has it
        (2, None, None, "delete"),
        (13, "b", None),  # free again
        (3, "c", "same"),
        (14, "c", None),  # 6
    ]
    place.land(given, **UPSERT)
    assert set(place.dead) == {0, 2, 6}
    assert place.read("id, words") == [(1, "a"), (3, "c"), (11, "x"), (13, "b")]


def test_value_that_moves_from_one_row_to_another_is_no_duplicate(place):
    """Beside a record that is refused for another reason."""
    place.make("id bigint PRIMARY KEY, words text UNIQUE CHECK (words <> 'no'), other text")
    place.run("INSERT INTO rows VALUES (1, 'a', NULL)")
    place.land([(1, "z", None), (2, "a", None), (3, "no", None)], **UPSERT)
    assert set(place.dead) == {2}
    assert place.read("id, words") == [(1, "z"), (2, "a")]


def test_value_that_moves_is_no_duplicate_beside_one_that_is(place):
    place.make("id bigint PRIMARY KEY, words text UNIQUE, other text")
    place.run("INSERT INTO rows VALUES (1, 'a', NULL), (9, 'q', NULL)")
    place.land([(1, "z", None), (2, "a", None), (3, "q", None)], **UPSERT)
    assert set(place.dead) == {2}
    assert place.read("id, words") == [(1, "z"), (2, "a"), (9, "q")]


def test_values_that_two_rows_exchange_are_duplicates(place):
    place.make("id bigint PRIMARY KEY, words text UNIQUE, other text")
    place.run("INSERT INTO rows VALUES (1, 'a', NULL), (2, 'b', NULL)")
    place.land([(1, "b", None), (2, "a", None), (3, "c", None)], **UPSERT)
    assert set(place.dead) == {0, 1}
    assert place.read("id, words") == [(1, "a"), (2, "b"), (3, "c")]


def test_deletes_of_rows_that_others_refer_to_are_dead_letters(place):
    place.make("id bigint PRIMARY KEY, words text, other text", "CREATE TABLE more (row bigint REFERENCES rows)")
    place.run("INSERT INTO rows SELECT n, 'was' FROM generate_series(0, 999) n")
    place.run("INSERT INTO more SELECT n FROM generate_series(0, 999, 10) n")
    landed = place.land([(number, None, None, "delete") for number in range(1000)], **UPSERT)
    assert (landed.deleted, landed.dead) == (900, 100)
    assert set(place.dead) == set(range(0, 1000, 10))
    assert place.savepoints[-1] <= 8


def test_number_of_dead_letters_is_limited(place):
    place.make("id bigint PRIMARY KEY, words text CHECK (words <> 'no'), other text")
    with pytest.raises(RejectedError) as error:
        place.land(rows(3000, SPREAD), most="299")
    assert error.value.message.endswith("more than on_error allows (max: 299)")
    assert "violates check constraint" in error.value.cause
    assert place.read() == place.read("*", "dead") == []
    assert place.land(rows(3000, SPREAD), most="300").dead == 300


def test_record_that_is_landed_again_is_kept_once(place):
    place.make("id bigint, words varchar(2), other text")
    place.land([(1, "too long", None), (2, "ok", None)])
    with psycopg.connect(place.dsn) as connection:
        connection.execute("UPDATE seamark_ledger SET next_offset = 0 WHERE owner = %s", [f"pipeline/{place.name}"])
    place.run("ALTER TABLE rows ALTER words TYPE varchar(3)")
    place.land([(1, "too long", None), (2, "ok", None)])
    assert place.dead == {0: "words: value too long for type character varying(3)"}
    assert place.read("record_key, record_value", "dead") == [(b"k", b"(1, 'too long', None)")]


def test_record_that_is_a_row_when_landed_again_is_no_dead_letter_any_more(place):
    place.make("id bigint, words varchar(2), other text")
    place.land([(1, "long", None), (2, "too long", None), (3, "ok", None)])
    assert set(place.dead) == {0, 1}
    with psycopg.connect(place.dsn) as connection:
        connection.execute("UPDATE seamark_ledger SET next_offset = 0 WHERE owner = %s", [f"pipeline/{place.name}"])
    place.run("TRUNCATE rows", "ALTER TABLE rows ALTER words TYPE varchar(4)")
    # Of a compacted topic, the record at 1 may be gone: its dead letter is all that is left.
    place.land([(1, "long", None)])
    assert [row[0] for row in place.read()] == [1]
    assert set(place.dead) == {1}


def test_range_that_is_landed_again_counts_its_dead_letters(place):
    place.make("id bigint, words varchar(2), other text")
    step = place.land(rows(20, {3, 5, 9}, wrong="too long")) and place.step
    landed = place.database.land(step, lambda _: pytest.fail("it is landed"), is_strict=False)
    assert (landed.is_repeat, landed.rows, landed.dead, landed.records) == (True, 0, 3, 20)
    assert landed.reasons == {"words: value too long for type character varying(2)": 3}


def test_missing_right_to_create_temporary_tables_is_named(place):
    role, name = f"r_{place.name}", f"d_{place.name}"
    given = psycopg.conninfo.make_conninfo(place.dsn, user=role, password="x", dbname=name)
    with psycopg.connect(place.dsn, autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'x'")
        owner.execute(f"CREATE DATABASE {name} OWNER {role}")
        owner.execute(f"REVOKE TEMPORARY ON DATABASE {name} FROM PUBLIC, {role}")
    try:
        with psycopg.connect(given) as own:
            own.execute(f"CREATE SCHEMA {place.name}")
            own.execute(f"CREATE TABLE {place.name}.rows (id bigint, words varchar(2), other text)")
        assert place.land([(1, "ok", None)], dsn=given).rows == 1
        with pytest.raises(AuthorizationError) as error:
            place.land([(1, "too long", None)], dsn=given)
        assert error.value.hint.endswith("mode: upsert and dead letters need temporary tables")
    finally:
        with psycopg.connect(place.dsn, autocommit=True) as owner:
            owner.execute(f"DROP DATABASE {name} WITH (FORCE)")
            owner.execute(f"DROP ROLE {role}")


WORDS = st.sampled_from(["a", "b", "c", "no", "long", None])
OTHERS = st.sampled_from(["1", "2", "3", None, "x", "2026"])
ROWS = st.lists(st.tuples(st.integers(1, 8), WORDS, OTHERS), min_size=1, max_size=25)
TABLE = (
    "id bigint PRIMARY KEY, words varchar(3) NOT NULL CHECK (words <> 'no'), other int REFERENCES {0}.others "
    "CHECK (other <> 3 OR words <> 'c')"
)
SETTINGS = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])


class Oracle:
    """What the table has and refuses if each record is tried by itself."""

    def __init__(self, place):
        self.place = place
        self.refused = set()
        self.connection = psycopg.connect(place.dsn, autocommit=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def take(self, row, *, upsert=False):
        more = "ON CONFLICT (id) DO UPDATE SET words = excluded.words, other = excluded.other" if upsert else ""
        id_, words, other = (None if one is None else str(one) for one in row)
        text = f"INSERT INTO {self.place.name}.rows SELECT %s::bigint, %s::text, %s::text::int {more}"
        try:
            self.connection.execute(text, [id_, words, other])
        except psycopg.Error:
            return False
        return True


@pytest.fixture
def ruled(place):
    place.run("CREATE TABLE others (id int PRIMARY KEY)", "INSERT INTO others VALUES (1), (2), (3)")
    return place.make(TABLE.format(place.name))


@pytest.fixture
def twice_unique(place):
    return place.make("id bigint PRIMARY KEY, words text UNIQUE, other int UNIQUE")


@SETTINGS
@given(given=ROWS, size=st.integers(1, 30))
def test_added_rows_are_those_that_are_taken_one_by_one(ruled, given, size):
    compare_added(ruled, given, size)


@SETTINGS
@given(given=ROWS, size=st.integers(1, 30))
def test_with_several_unique_indexes_those_are_added_that_are_taken_one_by_one(twice_unique, given, size):
    compare_added(twice_unique, given, size)


def compare_added(place, given, size):
    place.run("TRUNCATE rows")
    with Oracle(place) as oracle:
        refused = {number for number, row in enumerate(given) if not oracle.take(row)}
    expected = place.read()
    place.run("TRUNCATE rows", "DROP TABLE IF EXISTS dead")
    place.forget()
    place.land(given, size=size)
    assert (set(place.dead), place.read()) == (refused, expected)


@SETTINGS
@given(given=ROWS, size=st.integers(1, 30))
def test_replaced_rows_are_the_newest_that_are_taken(ruled, given, size):
    place = ruled
    place.run("TRUNCATE rows")
    refused, done = set(), set()
    with Oracle(place) as oracle:
        for number, row in reversed(list(enumerate(given))):
            # A value that can't be read is a bad record, also where a newer one of its key is good.
            is_readable = row[1] != "long" and row[2] != "x"
            if row[0] in done and is_readable:
                continue
            if is_readable and oracle.take(row, upsert=True):
                done.add(row[0])
            else:
                refused.add(number)
    expected = place.read()
    place.run("TRUNCATE rows", "DROP TABLE IF EXISTS dead")
    place.forget()
    place.land(given, size=size, **UPSERT)
    assert (set(place.dead), place.read()) == (refused, expected)
