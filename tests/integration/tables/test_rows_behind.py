"""Rows behind, counted in a real PostgreSQL: exact, within a time limit that the server keeps, and harmless."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from seamark.connect.model import Connector
from seamark.core.offsets import Certainty, Distance, Mark, Offset, TableRows, Unit
from seamark.core.refs import ConnectorType
from seamark.devstack.process import wait_until
from seamark.errors import AuthenticationError, AuthorizationError, NotFoundError, RejectedError
from seamark.offsets.read.lag import rows_behind
from seamark.tables import Database
from seamark.tables.postgres.counting import build_explain

PLUGIN = "io.aiven.connect.jdbc.JdbcSourceConnector"
ROWS = 2000
HOSTILE = 'log"; DROP TABLE purchase; --'
# As the connector itself asks, by the clock of the database.
THEIRS = {
    "incrementing": "seq > %(seq)s",
    "timestamp": "at > %(at)s AND at < now()",
    "timestamp+incrementing": "at < now() AND ((at = %(at)s AND seq > %(seq)s) OR at > %(at)s)",
}


class Shop:
    """An own schema in the shared database."""

    def __init__(self, stack):
        self.schema = f"rows_{uuid4().hex[:10]}"
        self.dsn = f"{stack.postgres.dsn} application_name={self.schema}"
        self.stack = stack
        self.admin = psycopg.connect(stack.postgres.dsn, autocommit=True)

    def run(self, text, *values):
        return self.admin.execute(sql.SQL(text).format(schema=sql.Identifier(self.schema)), values or None)

    def get(self, text, *values):
        return self.run(text, *values).fetchone()[0]

    def table(self, name="purchase"):
        return (self.schema, name)

    def connector(self, **config):
        return Connector("c", "connect", ConnectorType.SOURCE, {"connector.class": PLUGIN, **config})

    def offset(self, offset, name="purchase"):
        return Offset({"protocol": "1", "table": f"postgres.{self.schema}.{name}"}, offset)

    def count(self, rows, **options):
        with Database(self.dsn, name="shop", **options) as database:
            return database.count(Distance(Unit.ROWS, rows))

    def active(self, words="%"):
        """What still runs for us in the server."""
        query = (
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND state <> 'idle' AND query LIKE %s"
        )
        return self.admin.execute(query, [self.schema, words]).fetchone()[0]


@pytest.fixture(scope="module")
def shop(stack):
    """Three rows share each timestamp; the last hundred rows lie in the future."""
    made = Shop(stack)
    made.run("CREATE SCHEMA {schema}")
    made.run(
        "CREATE TABLE {schema}.purchase (seq bigint GENERATED ALWAYS AS IDENTITY, at timestamptz NOT NULL, "
        "local timestamp NOT NULL, late timestamptz, item text)"
    )
    made.run(
        "INSERT INTO {schema}.purchase (at, local, late, item) SELECT t, t AT TIME ZONE 'Asia/Seoul', "
        "CASE WHEN n %% 5 = 0 THEN t + interval '1 s' END, 'item' FROM (SELECT n, now() + interval '1 hour' "
        "- (%s - n / 3) * interval '108 seconds' AS t FROM generate_series(1, %s::int) AS n) AS x",
        ROWS // 3,
        ROWS,
    )
    made.run("CREATE UNIQUE INDEX ON {schema}.purchase (seq)")
    made.run("CREATE INDEX ON {schema}.purchase (at, seq)")
    made.run("ANALYZE {schema}.purchase")
    yield made
    made.run("DROP SCHEMA {schema} CASCADE")
    made.admin.close()


def count_at_once(ours, theirs):
    """Both counts, at one time: every two minutes rows of the future become old enough, and then both are made anew."""
    while True:
        before, counted = theirs(), ours()
        if theirs() == before:
            return counted, before


@pytest.mark.parametrize("mode", THEIRS)
@pytest.mark.parametrize("seq", [1, 2, ROWS // 2, ROWS // 2 + 1, ROWS - 150])
def test_it_is_what_the_connector_would_read(shop, mode, seq):
    at = shop.get("SELECT at FROM {schema}.purchase WHERE seq = %s", seq)
    micros = shop.get("SELECT (extract(epoch FROM %s::timestamptz) * 1000000)::bigint", at)
    position = {"incrementing": seq, "timestamp": micros // 1000, "timestamp_nanos": micros % 1_000_000 * 1000}
    connector = shop.connector(**{"mode": mode, "incrementing.column.name": "seq", "timestamp.column.name": "at"})
    query = f"SELECT count(*) FROM {shop.schema}.purchase WHERE {THEIRS[mode]}"
    with Database(shop.dsn) as database:
        counted, theirs = count_at_once(
            lambda: rows_behind(connector, shop.offset(position), database),
            lambda: shop.admin.execute(query, {"seq": seq, "at": at}).fetchone()[0],
        )
    assert theirs > 0
    assert (counted.figure, counted.certainty, counted.unit) == (theirs, Certainty.EXACT, Unit.ROWS)


def test_a_column_without_time_zone_is_read_in_the_connectors_zone(shop):
    micros = shop.get("SELECT (extract(epoch FROM at) * 1000000)::bigint FROM {schema}.purchase WHERE seq = 600")
    position = {"timestamp": micros // 1000, "timestamp_nanos": micros % 1_000_000 * 1000}
    config = {"mode": "timestamp", "timestamp.column.name": "local", "db.timezone": "Asia/Seoul"}
    wanted = "SELECT count(*) FROM {schema}.purchase WHERE at > (SELECT at FROM {schema}.purchase WHERE seq = 600)"
    with Database(shop.dsn) as database:
        counted, theirs = count_at_once(
            lambda: rows_behind(shop.connector(**config), shop.offset(position), database),
            lambda: shop.get(f"{wanted} AND at < now()"),
        )
        wrong = rows_behind(shop.connector(**{**config, "db.timezone": "UTC"}), shop.offset(position), database)
    assert counted.figure == theirs
    assert wrong.figure != counted.figure


def test_the_first_time_that_is_not_null_counts(shop):
    micros = shop.get("SELECT (extract(epoch FROM at) * 1000000)::bigint FROM {schema}.purchase WHERE seq = 601")
    rows = TableRows(shop.table(), time_columns=("late", "at"), after=Mark(None, micros), upto=Mark(None, 10**16))
    wanted = "SELECT count(*) FROM {schema}.purchase WHERE coalesce(late, at) > to_timestamp(0) + %s * interval '1 us'"
    assert shop.count(rows).figure == shop.get(wanted, micros)


def test_between_two_positions_the_last_counts_and_the_first_does_not(shop):
    rows = TableRows(shop.table(), number_column="seq", after=Mark(100), upto=Mark(350))
    assert shop.count(rows).figure == 250
    assert shop.count(TableRows(shop.table())).figure == ROWS


def test_rows_that_are_not_old_enough_do_not_count_yet(shop):
    def count(delay_ms):
        rows = TableRows(shop.table(), time_columns=("at",), after=Mark(None, 0), delay_ms=delay_ms)
        return shop.count(rows).figure

    assert count(0) - count(3_600_000) == pytest.approx(100, abs=4)


def test_the_column_that_counts_by_itself_is_found(shop):
    rows = TableRows(shop.table(), number_column="", after=Mark(ROWS - 7))
    assert shop.count(rows).figure == 7
    shop.run("CREATE TABLE IF NOT EXISTS {schema}.plain (id bigint)")
    with pytest.raises(RejectedError, match="auto-increment"):
        shop.count(TableRows(shop.table("plain"), number_column="", after=Mark(1)))


def test_an_index_answers_it(shop):
    micros = shop.get(
        "SELECT (extract(epoch FROM at) * 1000000)::bigint FROM {schema}.purchase WHERE seq = %s", ROWS - 20
    )
    rows = TableRows(
        shop.table(), number_column="seq", time_columns=("at",), after=Mark(ROWS - 20, micros), upto=Mark(ROWS, 10**16)
    )
    statement = build_explain(rows, "seq")
    plan = shop.admin.execute(statement.text, statement.values).fetchone()[0][0]["Plan"]
    assert "Index" in plan["Node Type"] or "Bitmap" in plan["Node Type"]


def test_hostile_names_are_only_names(shop):
    shop.admin.execute(
        sql.SQL("CREATE TABLE IF NOT EXISTS {} AS SELECT n AS {} FROM generate_series(1, 9) AS n").format(
            sql.Identifier(*shop.table(HOSTILE)), sql.Identifier(HOSTILE)
        )
    )
    assert shop.count(TableRows(shop.table(HOSTILE), number_column=HOSTILE, after=Mark(4))).figure == 5
    assert shop.get("SELECT count(*) FROM {schema}.purchase") == ROWS


def test_at_the_limit_the_server_cancels_it_and_the_figure_is_an_estimate(shop):
    # A row takes 10 ms: the whole count would take 1000 s.
    shop.run(
        "CREATE OR REPLACE VIEW {schema}.slow AS SELECT n AS id FROM generate_series(1, 100000) AS n "
        "WHERE pg_sleep(0.01) IS NOT NULL"
    )
    began = time.monotonic()
    with Database(shop.dsn, limit_seconds=0.5) as database:
        rows = TableRows(shop.table("slow"), number_column="id", after=Mark(0))
        counted = database.count(Distance(Unit.ROWS, rows))
        # The connection is open still, and nothing runs on it.
        assert shop.active() == 0
        assert database.count(Distance(Unit.ROWS, TableRows(shop.table()))).figure == ROWS
    assert 0.5 <= time.monotonic() - began < 60
    assert counted.certainty is Certainty.ESTIMATE
    assert counted.figure > 0
    # It says how long it was, which is the limit or somewhat more.
    assert re.search(r"canceled in the server after \d+\.\d s", counted.reason)


def test_the_estimate_is_near_where_the_table_was_analysed(shop):
    # Nothing else reads 0.6 s of rows in a test: the view sleeps once for each of the table's rows.
    shop.run(
        "CREATE OR REPLACE VIEW {schema}.drowsy AS SELECT seq FROM {schema}.purchase WHERE seq > 0 AND "
        "(seq <> 1999 OR pg_sleep(5) IS NOT NULL)"
    )
    rows = TableRows(shop.table("drowsy"), number_column="seq", after=Mark(ROWS // 2))
    counted = shop.count(rows, limit_seconds=0.3)
    assert counted.certainty is Certainty.ESTIMATE
    assert counted.figure == pytest.approx(ROWS // 2, rel=0.2)


def test_a_real_table_is_cut_off_too(shop):
    shop.run("CREATE TABLE {schema}.large AS SELECT n AS id FROM generate_series(1, 400000) AS n")
    shop.run("ANALYZE {schema}.large")
    with Database(shop.dsn, limit_seconds=0.001) as database:
        counted = database.count(Distance(Unit.ROWS, TableRows(shop.table("large"), number_column="id", after=Mark(0))))
        assert shop.active() == 0
    assert counted.certainty is Certainty.ESTIMATE
    assert counted.figure == pytest.approx(400_000, rel=0.1)


def test_who_is_interrupted_leaves_nothing_running(shop):
    shop.run(
        "CREATE OR REPLACE VIEW {schema}.endless AS SELECT n AS id FROM generate_series(1, 100000) AS n "
        "WHERE pg_sleep(0.01) IS NOT NULL"
    )
    program = """
import os, signal
# Where nobody sits at a terminal, children are told to ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
from seamark.tables import Database
from seamark.core.offsets import Distance, Mark, TableRows, Unit
rows = TableRows((os.environ["SCHEMA"], "endless"), number_column="id", after=Mark(0))
try:
    Database(os.environ["DSN"], limit_seconds=90).count(Distance(Unit.ROWS, rows))
except KeyboardInterrupt:
    print("interrupted")
"""
    env = {**os.environ, "SCHEMA": shop.schema, "DSN": shop.dsn}
    with subprocess.Popen([sys.executable, "-c", program], env=env, stdout=subprocess.PIPE, text=True) as child:
        wait_until(lambda: shop.active("%count(%endless%") > 0, "the count to run", seconds=60)
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=60)
    assert out == "interrupted\n"
    # Long before the server's own limit.
    wait_until(lambda: shop.active() == 0, "the server to be left alone", seconds=30)


def test_a_table_that_somebody_holds_is_told_from_the_catalogue(shop):
    shop.run("CREATE TABLE {schema}.held AS SELECT n AS id FROM generate_series(1, 500) AS n")
    shop.run("ANALYZE {schema}.held")
    with psycopg.connect(shop.stack.postgres.dsn) as holder:
        holder.execute(f"LOCK TABLE {shop.schema}.held IN ACCESS EXCLUSIVE MODE")
        counted = shop.count(TableRows(shop.table("held"), number_column="id", after=Mark(400)), limit_seconds=0.3)
        holder.rollback()
    assert (counted.figure, counted.certainty) == (500, Certainty.ESTIMATE)
    assert "whole table" in counted.reason
    assert shop.active() == 0


def test_nothing_can_be_written(shop):
    shop.run("CREATE TABLE {schema}.trap (id int)")
    shop.run(
        "CREATE FUNCTION {schema}.spring() RETURNS int LANGUAGE sql VOLATILE AS "
        "$$ INSERT INTO {schema}.trap VALUES (1) RETURNING 1 $$"
    )
    shop.run("CREATE VIEW {schema}.bait AS SELECT n AS id FROM generate_series(1, 3) AS n WHERE {schema}.spring() = 1")
    with pytest.raises(RejectedError) as caught:
        shop.count(TableRows(shop.table("bait"), number_column="id", after=Mark(0)))
    assert "read-only" in caught.value.cause
    assert shop.get("SELECT count(*) FROM {schema}.trap") == 0


def test_what_is_not_there_is_named(shop):
    for table in (shop.table("gone"), ("nowhere", "t")):
        with pytest.raises(NotFoundError) as caught:
            shop.count(TableRows(table, number_column="id", after=Mark(0)))
        assert caught.value.context["table"] == ".".join(table)
    with pytest.raises(NotFoundError):
        shop.count(TableRows(shop.table(), number_column="Seq", after=Mark(0)))
    with pytest.raises(RejectedError):
        shop.count(TableRows(("elsewhere", *shop.table()), number_column="seq", after=Mark(0)))


def test_who_may_not_read_is_told_so(shop):
    role = f"{shop.schema}_role"
    shop.admin.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'reader-canary'").format(sql.Identifier(role)))
    try:
        pg = shop.stack.postgres
        place = f"host={pg.host} port={pg.port} dbname={pg.database} user={role}"
        rows = Distance(Unit.ROWS, TableRows(shop.table(), number_column="seq", after=Mark(0)))
        with Database(f"{place} password=reader-canary") as database, pytest.raises(AuthorizationError) as caught:
            database.count(rows)
        assert "GRANT" in caught.value.hint
        with Database(f"{place} password=wrong-canary") as database, pytest.raises(AuthenticationError) as refused:
            database.count(rows)
        assert "canary" not in f"{caught.value.as_dict()}{refused.value.as_dict()}"
    finally:
        shop.admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


def test_a_connection_that_broke_is_opened_anew(shop):
    rows = Distance(Unit.ROWS, TableRows(shop.table(), number_column="seq", after=Mark(ROWS - 3)))
    with Database(shop.dsn) as database:
        assert database.count(rows).figure == 3
        shop.admin.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = %s", [shop.schema]
        )
        with pytest.raises(Exception, match="closed the connection"):
            database.count(rows)
        assert database.count(rows).figure == 3
