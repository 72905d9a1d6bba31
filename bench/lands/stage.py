"""A broker with a filled topic, a PostgreSQL, one Spark session, and an empty table for each run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from uuid import uuid4

import psycopg
from confluent_kafka import Producer

from bench.copies.session import open_spark, read_jvm_pid
from bench.copies.topics import Topics
from bench.harness.definition import Prepared, WrongResultError
from seamark.devstack import StackSpec, start_stack
from seamark.pipelines.land_column import LandColumn
from seamark.pipelines.landing import Landing, Mode, Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from seamark.devstack.stack import PostgresEndpoint
    from seamark.lake.place import LakePlace

PARTITIONS = 6
COLUMNS = (
    LandColumn("id", "bigint"),
    LandColumn("customer", "text"),
    LandColumn("amount", "double precision"),
    LandColumn("placed_at", "timestamptz"),
    LandColumn("note", "text"),
)
_TABLE = (
    "id bigint PRIMARY KEY, customer text, amount double precision, placed_at timestamptz, note text, "
    "_seamark_order numeric[]"
)


@dataclass(slots=True)
class Stage:
    """What the legs share."""

    servers: str
    postgres: PostgresEndpoint
    spark: SparkSession
    topic: str
    records: int
    folder: Path
    table: str = ""

    @property
    def lake(self) -> LakePlace:
        """Where tables of Delta are made."""
        from seamark.lake.place import LakePlace  # noqa: PLC0415 - the list of benches needs no Arrow

        return LakePlace(str(self.folder))

    def build_lake_landing(self) -> Landing:
        """The same in a lake."""
        return Landing(self.table, topic=self.topic, table=self.table, columns=COLUMNS, store=Store.DELTA)

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
        with psycopg.connect(self.postgres.dsn, autocommit=True) as connection:
            # What the last run left to be written is not this one's.
            connection.execute("CHECKPOINT")

    def renew_lake(self) -> None:
        """A new name for a table of the lake, and the last one's files gone."""
        shutil.rmtree(self.folder / (self.table or "none"), ignore_errors=True)
        self.renew_table()


@dataclass(frozen=True, slots=True)
class Landed:
    """What a leg did."""

    table: str
    is_lake: bool = False


def check_table(stage: Stage, landed: Landed) -> None:
    """Every record is a row, and what it was."""
    numbers = stage.records * (stage.records - 1) // 2
    found = _read_lake(stage, landed) if landed.is_lake else _read_table(stage, landed)
    if found != (stage.records, numbers, stage.records):
        raise WrongResultError(f"the table has {found[0]} rows, {found[2]} of them right, of {stage.records}")


def _read_lake(stage: Stage, landed: Landed) -> tuple[int, int, int]:
    from pyspark.sql import functions as sf  # noqa: PLC0415

    rows = stage.spark.read.format("delta").load(str(stage.folder / landed.table))
    is_right = sf.expr(
        "customer = concat('customer ', id % 5000) AND amount = id / 8.0 AND note IS NULL AND placed_at IS NOT NULL"
    )
    count, total, right = rows.select(sf.count("*"), sf.sum("id"), sf.count(sf.when(is_right, 1))).collect()[0]
    return count, total, right


def _read_table(stage: Stage, landed: Landed) -> tuple[int, int, int]:
    with psycopg.connect(stage.postgres.dsn) as connection:
        found = connection.execute(
            f"SELECT count(*), sum(id), count(*) FILTER (WHERE customer = 'customer ' || id % 5000 "  # noqa: S608
            f"AND amount = id / 8.0 AND note IS NULL AND placed_at IS NOT NULL) FROM {landed.table}"
        ).fetchall()[0]
    return found[0], int(found[1]), found[2]


@contextmanager
def open_stage(records: int) -> Iterator[Prepared[Stage]]:
    """Fill the topic, and open Spark."""
    spec = StackSpec(brokers=1, workers=0, postgres=True, full_jit=True)
    with start_stack(spec, name="lands") as stack, Topics(stack.kafka.bootstrap_servers) as topics:
        topic = topics.make(PARTITIONS)
        _fill(topics.servers, topic, records)
        if stack.postgres is None:
            raise WrongResultError("the stack has no PostgreSQL")
        from seamark.spark.lake_conf import DELTA_CONF  # noqa: PLC0415 - the list of benches needs no Arrow

        with open_spark(DELTA_CONF) as spark, TemporaryDirectory(prefix="seamark-bench-lake-") as folder:
            jvm = read_jvm_pid(spark)
            stage = Stage(topics.servers, stack.postgres, spark, topic=topic, records=records, folder=Path(folder))
            pids = {server.name: server.pid for server in stack.servers if server.kind == "broker"}
            versions = {"kafka": stack.kafka.version, "spark": spark.version}
            families = {"Spark Python": jvm}
            families |= {server.name: server.pid for server in stack.servers if server.kind == "postgres"}
            yield Prepared(stage, pids={**pids, "Spark JVM": jvm}, families=families, versions=versions)


def _fill(servers: str, topic: str, records: int) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "compression.type": "lz4"})
    for number in range(records):
        value = {
            "id": number,
            "customer": f"customer {number % 5000}",
            "amount": number / 8,
            "placed_at": f"2026-11-16T10:{number % 60:02}:00Z",
            "note": None,
        }
        while True:
            try:
                producer.produce(topic, value=json.dumps(value).encode(), partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(120):
        raise WrongResultError("the topic could not be filled")
