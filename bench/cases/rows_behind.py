"""`rows-behind`: how far a JDBC source is behind, against a bare `count(*)` of the same rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import psycopg
from psycopg import sql

from bench.harness.definition import Bench, Direction, Leg, Prepared, Ratio, WrongResultError
from seamark.connect.model import Connector
from seamark.core.offsets import Certainty, Counted, Offset
from seamark.core.refs import ConnectorType
from seamark.devstack import Stack, StackSpec, load_stack, start_stack
from seamark.offsets.read.lag import rows_behind
from seamark.tables import Database

ROWS = 5_000_000
# Where the offset stands, in hundredths of the table.
PLACES = (1, 50, 99)
# A hundredth of the table is counted in some 10 ms, which is near the jitter of a busy machine: it is counted often.
REPEATS = {1: 1, 50: 1, 99: 25}
# Far above what a count takes, on any machine that this may run on: the limit must not decide the bench.
LIMIT_SECONDS = 120.0
PLUGIN = "io.aiven.connect.jdbc.JdbcSourceConnector"


@dataclass(frozen=True, slots=True)
class Table:
    """A table, one open connection for each leg, and the right answer for each place."""

    name: str
    rows: int
    bare: psycopg.Connection[tuple[int]]
    ours: Database

    def number_at(self, place: int) -> int:
        """The last row that was read."""
        return self.rows * place // 100


@dataclass(frozen=True, slots=True)
class Answer:
    """What a leg counted, at which place."""

    place: int
    figures: tuple[int | None, ...]


def count_bare(place: int) -> Callable[[Table], Answer]:
    """`count(*)` as anybody would type it."""

    def run(table: Table) -> Answer:
        query = sql.SQL("SELECT count(*) FROM {} WHERE seq > {}").format(
            sql.Identifier(table.name), sql.Literal(table.number_at(place))
        )
        figures = []
        for _ in range(REPEATS[place]):
            row = table.bare.execute(query).fetchone()
            figures.append(row[0] if row else None)
        return Answer(place, tuple(figures))

    return run


def count_ours(place: int) -> Callable[[Table], Answer]:
    """From a connector and its offset: the meaning, the read-only transaction, the limit, the count."""

    def run(table: Table) -> Answer:
        config = {"connector.class": PLUGIN, "mode": "incrementing", "incrementing.column.name": "seq"}
        connector = Connector("bench", "connect", ConnectorType.SOURCE, config)
        partition = {"protocol": "1", "table": f"postgres.public.{table.name}"}
        offset = Offset(partition, {"incrementing": table.number_at(place)})
        counted = [rows_behind(connector, offset, table.ours) for _ in range(REPEATS[place])]
        return Answer(place, tuple(_read_exact(one) for one in counted))

    return run


def check_answer(table: Table, answer: Answer) -> None:
    """Every count must be the right one."""
    wanted = (table.rows - table.number_at(answer.place),) * REPEATS[answer.place]
    if answer.figures != wanted:
        raise WrongResultError(f"at {answer.place} %: {answer.figures[:3]} instead of {wanted[0]}")


def _read_exact(counted: Counted) -> int | None:
    return counted.figure if counted.certainty is Certainty.EXACT else None


@contextmanager
def open_table(size: int) -> Iterator[Prepared[Table]]:
    """A table of that many rows, vacuumed and analysed. With SEAMARK_DEVSTACK in a running stack's database."""
    path = os.environ.get("SEAMARK_DEVSTACK")
    if path:
        with _make_table(load_stack(Path(path)), size) as prepared:
            yield prepared
    else:
        with (
            start_stack(StackSpec(brokers=1, workers=0, postgres=True)) as stack,
            _make_table(stack, size) as prepared,
        ):
            yield prepared


@contextmanager
def _make_table(stack: Stack, size: int) -> Iterator[Prepared[Table]]:
    postgres = stack.postgres
    if postgres is None:
        raise WrongResultError("the stack has no PostgreSQL")
    name = f"bench_{uuid4().hex[:8]}"
    with (
        psycopg.connect(postgres.dsn, autocommit=True) as bare,
        Database(postgres.dsn, name="bench", limit_seconds=LIMIT_SECONDS) as ours,
    ):
        table = sql.Identifier(name)
        bare.execute(sql.SQL("CREATE TABLE {} (seq bigint NOT NULL, at timestamptz NOT NULL, item text)").format(table))
        try:
            bare.execute(
                sql.SQL(
                    "INSERT INTO {} SELECT n, now() - ({} - n) * interval '1 ms', 'item ' || n % 1000 "
                    "FROM generate_series(1, {}) AS n"
                ).format(table, size, size)
            )
            bare.execute(sql.SQL("ALTER TABLE {} ADD PRIMARY KEY (seq)").format(table))
            bare.execute(sql.SQL("VACUUM ANALYZE {}").format(table))
            row = bare.execute("SHOW server_version").fetchone()
            pids = {server.name: server.pid for server in stack.servers if server.kind == "postgres"}
            versions = {"postgres": str(row[0]).partition(" ")[0]} if row else {}
            yield Prepared(Table(name, size, bare, ours), pids=pids, versions=versions)
        finally:
            bare.execute(sql.SQL("DROP TABLE {}").format(table))


BENCH: Bench[Table, Answer] = Bench(
    name="rows-behind",
    compares=(
        f"How far a JDBC source in mode incrementing is behind, on a table of {ROWS:,} rows with the offset at 1, 50 "
        "and 99 % of it: `rows_behind(connector, offset, database)` against a bare `count(*)` of the same rows, both "
        f"on an open connection. The figure is our seconds over the bare ones; at 99 % a run is {REPEATS[99]} counts."
    ),
    setup=open_table,
    check=check_answer,
    legs=tuple(
        leg
        for place in PLACES
        for leg in (Leg(f"bare at {place} %", count_bare(place)), Leg(f"ours at {place} %", count_ours(place)))
    ),
    ratios=tuple(
        Ratio(
            f"ours over bare at {place} %",
            over=f"ours at {place} %",
            under=f"bare at {place} %",
            bar=1.5,
            direction=Direction.AT_MOST,
        )
        for place in PLACES
    ),
    sizes=(ROWS,),
    # Smaller, the rounds to the server would be measured, which no table that is worth counting notices.
    quick_sizes=(2_000_000,),
    # The second lowest and second highest of 8 cover 93 %, so that one disturbed pair does not widen the interval.
    pairs=8,
    warmups=2,
)
