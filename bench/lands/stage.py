"""A broker with filled topics, a PostgreSQL, one Spark session, and an empty table for each run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from uuid import uuid4

import psycopg
from confluent_kafka import Producer

from bench.copies.session import open_spark, read_jvm_pid
from bench.copies.topics import Topics
from bench.harness.definition import Prepared, WrongResultError
from bench.lands.changes import Changes
from bench.lands.rows import COLUMNS, PARTITIONS, Expected, build_value
from seamark.devstack import Stack, StackSpec, load_stack, start_stack
from seamark.tables.definition import Landing, Mode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from seamark.devstack.stack import PostgresEndpoint
    from seamark.tables.delta.location import TableLocation

# The last two columns are the order of a row: ours, and the rival's.
_TABLE = (
    "id bigint PRIMARY KEY, customer text, amount double precision, placed_at timestamptz, note text, "
    "_seamark_order numeric[], ordered_at bigint"
)
_TOMBSTONES = "seamark_tombstones"
# The leg `delta` writes with Delta's own writer.
_DELTA_CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


@dataclass(slots=True)
class Stage:
    """What the legs share."""

    servers: str
    postgres: PostgresEndpoint
    spark: SparkSession
    topics: Topics
    topic: str
    records: int
    changes_topic: str
    changes: Changes
    changes_expected: Expected
    folder: Path
    table: str = ""
    fresh_topic: str = ""

    @property
    def lake(self) -> TableLocation:
        """Where tables of Delta are made."""
        from seamark.tables.delta.location import TableLocation  # noqa: PLC0415 - the list of benches needs no Arrow

        return TableLocation(str(self.folder))

    def build_lake_landing(self) -> Landing:
        """The same in a lake."""
        return Landing(self.table, topic=self.topic, table=self.table, columns=COLUMNS, store="delta")

    def build_landing(self, mode: Mode) -> Landing:
        """The landing of a run: its own name, so that it begins at the beginning."""
        key, order = (("id",), ("placed_at",)) if mode is Mode.UPSERT else ((), ())
        return Landing(self.table, topic=self.topic, table=self.table, columns=COLUMNS, mode=mode, key=key, order=order)

    def renew_table(self) -> None:
        """An empty table in the place of the last one."""
        former, self.table = self.table, f"bench_{uuid4().hex[:8]}"
        with psycopg.connect(self.postgres.dsn) as connection:
            if former:
                connection.execute(f"DROP TABLE {former}")
            connection.execute(f"CREATE TABLE {self.table} ({_TABLE})")
            # Deletes of the tables of earlier runs.
            found = connection.execute("SELECT to_regclass(%s)", [_TOMBSTONES]).fetchone()
            if found and found[0]:
                connection.execute(f"TRUNCATE {_TOMBSTONES}")
        with psycopg.connect(self.postgres.dsn, autocommit=True) as connection:
            # What the last run left to be written is not this one's.
            connection.execute("CHECKPOINT")

    def renew_fresh(self) -> None:
        """Create an empty table, and an empty topic for the records that are produced while a leg runs."""
        self.renew_table()
        self.topics.delete([self.fresh_topic])
        self.fresh_topic = self.topics.make(PARTITIONS)

    def renew_lake(self) -> None:
        """A new name for a table of the lake, and the last one's files gone."""
        shutil.rmtree(self.folder / (self.table or "none"), ignore_errors=True)
        self.renew_table()


@dataclass(frozen=True, slots=True)
class Landed:
    """What a leg did. Without `expected`, the table must have a row for each record of the topic."""

    table: str
    is_lake: bool = False
    expected: Expected | None = None
    gauges: Mapping[str, float] = field(default_factory=dict)


def check_table(stage: Stage, landed: Landed) -> None:
    """Check that the table has the rows that it must have, each with the values of its record."""
    expected = landed.expected or Expected(stage.records, stage.records * (stage.records - 1) // 2)
    read = _read_lake if landed.is_lake else _read_table
    count, ids, right = read(stage, landed.table, expected.is_right)
    if (count, ids, right) != (expected.rows, expected.ids, expected.rows):
        raise WrongResultError(f"the table has {count} rows, {right} of them right, of {expected.rows}")


def _read_lake(stage: Stage, table: str, is_right: str) -> tuple[int, int, int]:
    from pyspark.sql import functions as sf  # noqa: PLC0415

    rows = stage.spark.read.format("delta").load(str(stage.folder / table))
    right = sf.count(sf.when(sf.expr(is_right), 1))
    count, total, fitting = rows.select(sf.count("*"), sf.sum("id"), right).collect()[0]
    return count, total or 0, fitting


def _read_table(stage: Stage, table: str, is_right: str) -> tuple[int, int, int]:
    with psycopg.connect(stage.postgres.dsn) as connection:
        query = f"SELECT count(*), sum(id), count(*) FILTER (WHERE {is_right}) FROM {table}"  # noqa: S608
        count, total, right = connection.execute(query.encode()).fetchall()[0]
    return count, int(total or 0), right


@contextmanager
def open_stage(records: int) -> Iterator[Prepared[Stage]]:
    """Fill the topics, and open Spark. With SEAMARK_DEVSTACK, on a running stack."""
    with ExitStack() as opened:
        path = os.environ.get("SEAMARK_DEVSTACK")
        spec = StackSpec(brokers=1, workers=0, postgres=True, full_jit=True)
        stack = load_stack(Path(path)) if path else opened.enter_context(start_stack(spec, name="lands"))
        topics = opened.enter_context(Topics(stack.kafka.bootstrap_servers))
        yield opened.enter_context(_fill(stack, topics, records))


@contextmanager
def _fill(stack: Stack, topics: Topics, records: int) -> Iterator[Prepared[Stage]]:
    if stack.postgres is None:
        raise WrongResultError("the stack has no PostgreSQL")
    topic, changes_topic, changes = topics.make(PARTITIONS), topics.make(PARTITIONS), Changes(records)
    _produce(topics.servers, topic, (Record(number, build_value(number)) for number in range(records)))
    _produce(topics.servers, changes_topic, _list_changes(changes))
    with open_spark(_DELTA_CONF) as spark, TemporaryDirectory(prefix="seamark-bench-lake-") as folder:
        jvm = read_jvm_pid(spark)
        stage = Stage(
            topics.servers,
            stack.postgres,
            spark,
            topics=topics,
            topic=topic,
            records=records,
            changes_topic=changes_topic,
            changes=changes,
            changes_expected=changes.build_expected(),
            folder=Path(folder),
        )
        pids = {server.name: server.pid for server in stack.servers if server.kind == "broker"}
        versions = {"kafka": stack.kafka.version, "spark": spark.version}
        families = {"Spark Python": jvm}
        families |= {server.name: server.pid for server in stack.servers if server.kind == "postgres"}
        yield Prepared(stage, pids={**pids, "Spark JVM": jvm}, families=families, versions=versions)


@dataclass(frozen=True, slots=True)
class Record:
    """A record to produce. The partition follows from the id; a key and a timestamp only changes have."""

    id: int
    value: bytes | None
    key: bytes | None = None
    timestamp_ms: int = 0


def _list_changes(changes: Changes) -> Iterator[Record]:
    for one in changes:
        value = build_value(one.id, note=f"version {one.version}") if one.version else None
        yield Record(one.id, value, key=b"%d" % one.id, timestamp_ms=one.timestamp_ms)


def _produce(servers: str, topic: str, records: Iterable[Record]) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "compression.type": "lz4"})
    for one in records:
        partition, timestamp = one.id % PARTITIONS, one.timestamp_ms
        while True:
            try:
                producer.produce(topic, key=one.key, value=one.value, partition=partition, timestamp=timestamp)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(120):
        raise WrongResultError("the topic could not be filled")
