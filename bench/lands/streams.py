"""Upserts by Structured Streaming: `run_landing`, and what an expert writes with Spark and PostgreSQL alone."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from bench.lands.freshness import Order, build_id, measure_freshness
from bench.lands.rows import COLUMNS, PARTITIONS, SCHEMA, Expected
from bench.lands.stage import Landed, Stage
from seamark.tables.definition import LandColumn, Landing, Mode
from seamark.tables.model import KAFKA_TIMESTAMP

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming import StreamingQuery

# So few records a batch that the versions of a row reach the table one by one.
BATCHES = 6
P50, P99 = "p50 s", "p99 s"
_NAMES = tuple(column.name for column in COLUMNS)
# What `run_landing` sets for its own query, too: decision 0040 has the reasons.
_CONFS = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
}
_STAGED = "bench_staged"

OpenPipeline = Callable[[Stage], AbstractContextManager[None]]


def land_changes(stage: Stage) -> Landed:
    """`run_landing` of the changes, from the claim to the ledger's last move."""
    from seamark.pipelines.spark_job import LandEnds, run_landing  # noqa: PLC0415 - the list of benches needs no Spark

    ends = LandEnds({"kafka.bootstrap.servers": stage.servers}, target=stage.postgres.dsn)
    run_landing(stage.spark, build_landing(stage, stage.changes_topic), ends, records=stage.changes.count // BATCHES)
    return Landed(stage.table, expected=stage.changes_expected)


def land_changes_barely(stage: Stage) -> Landed:
    """The same changes in the same batches by Spark's own stream, a staging table and one statement per task."""
    records = stage.changes.count // BATCHES
    query = start_bare(stage, stage.changes_topic, records=records, trigger={"availableNow": True})
    query.awaitTermination()
    return Landed(stage.table, expected=stage.changes_expected)


def land_fresh(stage: Stage, open_pipeline: OpenPipeline) -> Landed:
    """Measure how fresh the table is while a pipeline runs without a pause between batches."""
    order = Order(stage.servers, stage.fresh_topic, stage.postgres.dsn, stage.table)
    with open_pipeline(stage):
        found = measure_freshness(order)
    expected = Expected(order.records, sum(build_id(number) for number in range(order.records)))
    return Landed(stage.table, expected=expected, gauges={P50: found.p50, P99: found.p99})


@contextmanager
def open_ours(stage: Stage) -> Iterator[None]:
    """Run `run_landing` in a thread of its own."""
    from seamark.pipelines.spark_job import LandEnds, run_landing  # noqa: PLC0415

    ends = LandEnds({"kafka.bootstrap.servers": stage.servers}, target=stage.postgres.dsn)
    landing, stop = build_landing(stage, stage.fresh_topic), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_landing, stage.spark, landing, ends, every_seconds=0, stop=stop)
        try:
            yield
        finally:
            stop.set()
            running.result()


@contextmanager
def open_bare(stage: Stage) -> Iterator[None]:
    """Run Spark's own stream."""
    trigger = {"processingTime": "0 seconds"}
    query = start_bare(stage, stage.fresh_topic, records=stage.changes.count, trigger=trigger)
    try:
        yield
    finally:
        query.stop()
        if failure := query.exception():
            raise failure


def build_landing(stage: Stage, topic: str) -> Landing:
    """Build an upsert whose key is the record's key, and whose order is the record's timestamp."""
    columns = (LandColumn("id", "bigint", "key"), *COLUMNS[1:])
    return Landing(
        stage.table,
        topic=topic,
        table=stage.table,
        columns=columns,
        mode=Mode.UPSERT,
        key=("id",),
        order=(KAFKA_TIMESTAMP,),
    )


def start_bare(stage: Stage, topic: str, *, records: int, trigger: dict[str, Any]) -> StreamingQuery:
    """Start a stream with a checkpoint. A batch that runs twice changes nothing, because orders are compared."""
    from bench.lands.copy_sink import CopySink  # noqa: PLC0415
    from seamark.spark.sessions import active_session, branch, register_sink  # noqa: PLC0415
    from seamark.spark.settings import build_source_options  # noqa: PLC0415

    register_sink(stage.spark, CopySink)
    spark = branch(stage.spark, _CONFS)
    options = build_source_options({"kafka.bootstrap.servers": stage.servers})
    reader = spark.readStream.format("kafka").options(**{**options, "includeHeaders": "false"})
    reader = reader.option("assign", json.dumps({topic: list(range(PARTITIONS))}))
    reader = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", str(records))
    # Before the query begins, as ours: a batch has only the columns that are written then.
    rows = reader.load().select(*_build_columns())
    sink = {**build_statements(stage.table), "database.url": stage.postgres.dsn}

    def write(batch: DataFrame, _: int) -> None:
        with active_session(batch.sparkSession):
            batch.write.format(CopySink.name()).mode("append").options(**sink).save()

    checkpoint = (stage.folder / f"checkpoint-{uuid4().hex[:8]}").as_uri()
    writer = rows.writeStream.option("checkpointLocation", checkpoint)
    return writer.trigger(**trigger).foreachBatch(write).start()


def build_statements(table: str) -> dict[str, str]:
    """Build what each task runs in one transaction: a temporary table, COPY, and one statement for all changes.

    All records of a key are in one partition, so that tasks never meet at a row, and need no common staging table.
    """
    names = ", ".join(_NAMES)
    sets = ", ".join(f"{name} = excluded.{name}" for name in (*_NAMES[1:], "ordered_at"))
    return {
        "before": (
            f"CREATE TEMP TABLE {_STAGED} ON COMMIT DROP AS "  # noqa: S608
            f"SELECT {names}, ordered_at, false AS is_deleted FROM {table} LIMIT 0"
        ),
        "statement": f"COPY {_STAGED} ({names}, ordered_at, is_deleted) FROM STDIN (FORMAT csv)",
        "after": (
            f"WITH newest AS MATERIALIZED (SELECT DISTINCT ON (id) * FROM {_STAGED} ORDER BY id, ordered_at DESC), "  # noqa: S608
            f"deleted AS (DELETE FROM {table} t USING newest n WHERE n.is_deleted AND t.id = n.id "
            "AND t.ordered_at <= n.ordered_at) "
            f"INSERT INTO {table} AS t ({names}, ordered_at) SELECT {names}, ordered_at FROM newest "
            f"WHERE NOT is_deleted ON CONFLICT (id) DO UPDATE SET {sets} WHERE t.ordered_at <= excluded.ordered_at"
        ),
    }


def _build_columns() -> list[Column]:
    from pyspark.sql import functions as sf  # noqa: PLC0415

    value = sf.from_json(sf.col("value").cast("string"), SCHEMA)
    return [
        sf.col("key").cast("string").cast("bigint").alias("id"),
        *(value[name].alias(name) for name in _NAMES[1:]),
        sf.unix_millis("timestamp").alias("ordered_at"),
        sf.col("value").isNull().alias("is_deleted"),
    ]
