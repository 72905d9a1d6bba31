"""Bad records among 600,000: how long a run takes, how much memory, and how many savepoints."""

from __future__ import annotations

import os
import re
import threading
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from seamark.errors import RejectedError
from seamark.pipelines.spark_job import LandEnds, run_landing
from seamark.tables.definition import DeadLetters, Landing
from tests.spark.land_stage import COLUMNS, TopicStage

RECORDS, EACH = 600_000, 100
BAD = RECORDS // EACH
MOST_SECONDS, MOST_BYTES, MOST_TIMES, MOST_SAVEPOINTS = 60, 300 * 10**6, 3, 64
WARM_RUNS = 8
# One topic for all: which of its records are bad is a matter of the table.
TABLES = {
    "clean": "words varchar(20)",
    "too long": "words varchar(10)",
    "check": f"words text, CHECK (number % {EACH} <> {EACH // 2})",
    "all too long": "words varchar(2)",
    "all check": "words text, CHECK (number < 0)",
}


def read_memory():
    """The proportional set size of this process and everything below it: the driver, its JVM, and Python workers."""
    parents, sizes = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status = (folder / "status").read_text()
            rollup = (folder / "smaps_rollup").read_text()
        except OSError:
            continue
        number = int(folder.name)
        parents[number] = int(re.search(r"PPid:\s+(\d+)", status)[1])
        sizes[number] = int(re.search(r"^Pss:\s+(\d+)", rollup, re.MULTILINE)[1]) * 1024

    def is_ours(number):
        while number in parents and number != os.getpid():
            number = parents[number]
        return number == os.getpid()

    return sum(size for number, size in sizes.items() if is_ours(number))


@contextmanager
def measuring():
    """Measure time and the greatest memory of a block."""
    found, stop = {"bytes": 0}, threading.Event()

    def watch():
        while not stop.wait(0.25):
            found["bytes"] = max(found["bytes"], read_memory())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    began = time.monotonic()
    try:
        yield found
    finally:
        found["seconds"] = time.monotonic() - began
        stop.set()
        watcher.join(30)


class Bulk(TopicStage):
    """A topic of 600,000 records, and a table for each run."""

    def __init__(self, stack, kafka):
        super().__init__(kafka, partitions=3)
        self.dsn = stack.postgres.dsn
        self.log = next(Path(server.log) for server in stack.servers if server.kind == "postgres")
        self.ends = LandEnds({"kafka.bootstrap.servers": kafka.servers}, target=self.dsn)
        self.tables = []
        values = (
            {"number": number, "words": "long words" + "!" * (number % EACH == EACH // 2)} for number in range(RECORDS)
        )
        self.produce(values, **{"queue.buffering.max.messages": RECORDS})

    def land(self, spark, rule, *, most="10%"):
        """Land the topic in a new table. Gives its name, and what was measured."""
        table = f"{self.name}_{len(self.tables)}"
        self.tables.append(table)
        self.ask(f"CREATE TABLE {table} (part int, place bigint, number bigint, {TABLES[rule]})")
        letters = DeadLetters(f"{table}_dead", most)
        landing = Landing(table, topic=self.topic, table=table, columns=COLUMNS, dead_letters=letters)
        begin, error = self.log.stat().st_size, None
        with measuring() as measured:
            try:
                run_landing(spark, landing, self.ends)
            except RejectedError as refused:
                error = refused
        measured["savepoints"] = self.count_savepoints(begin)
        print(f"{rule}, max {most}: {measured['seconds']:.1f} s, {measured['bytes'] / 1e6:.0f} MB PSS,", end=" ")
        print(f"at most {measured['savepoints']} savepoints; {error and error.cause}")
        return table, measured, error

    def count_savepoints(self, begin):
        """The most savepoints of a session since a place of the server's log. A range is one session."""
        with self.log.open("rb") as log:
            log.seek(begin)
            found = re.findall(r"\[(\d+)\] LOG:\s+statement: SAVEPOINT", log.read().decode(errors="replace"))
        return max(Counter(found).values(), default=0)

    def ask(self, text, *, has_rows=False):
        with psycopg.connect(self.dsn) as connection:
            cursor = connection.execute(text)
            return cursor.fetchall() if has_rows else None

    def count(self, table):
        return [self.ask(f"SELECT count(*) FROM {name}", has_rows=True)[0][0] for name in (table, f"{table}_dead")]

    def remove(self):
        for table in self.tables:
            self.ask(f"DROP TABLE IF EXISTS {table}, {table}_dead")
            self.ask(f"DELETE FROM seamark_ledger WHERE owner = 'pipeline/{table}'")


@pytest.fixture
def bulk(stack, kafka):
    made = Bulk(stack, kafka)
    made.ask("ALTER ROLE CURRENT_USER SET log_statement = 'all'")
    try:
        yield made
    finally:
        made.ask("ALTER ROLE CURRENT_USER RESET log_statement")
        made.remove()


def test_bad_records_of_600_000_are_bounded_in_time_memory_and_savepoints(spark, bulk):
    # The first run of a session compiles, and the JVM's heap grows with each run until it has its size.
    for _ in range(WARM_RUNS):
        bulk.land(spark, "clean")
    table, clean, _ = bulk.land(spark, "clean")
    assert bulk.count(table) == [RECORDS, 0]
    assert clean["savepoints"] >= 1, "the server's log has no statements"
    for rule in ("too long", "check"):
        table, found, error = bulk.land(spark, rule)
        assert error is None
        assert bulk.count(table) == [RECORDS - BAD, BAD]
        assert found["seconds"] <= MOST_TIMES * clean["seconds"], f"{rule}: {found} of {clean}"
        assert found["savepoints"] <= MOST_SAVEPOINTS
    for rule, reason in (("all too long", "words: value too long"), ("all check", "violates check constraint")):
        table, found, error = bulk.land(spark, rule)
        assert reason in error.cause
        assert bulk.count(table) == [0, 0]
        assert found["seconds"] <= MOST_SECONDS
        assert found["bytes"] <= clean["bytes"] + MOST_BYTES, f"{rule}: {found} of {clean}"
        assert found["savepoints"] <= MOST_SAVEPOINTS
    for rule in ("all too long", "all check"):
        table, found, error = bulk.land(spark, rule, most="100%")
        assert (error, bulk.count(table)) == (None, [0, RECORDS])
        assert found["seconds"] <= MOST_SECONDS
        assert found["bytes"] <= clean["bytes"] + MOST_BYTES, f"{rule}: {found} of {clean}"
        assert found["savepoints"] <= MOST_SAVEPOINTS
