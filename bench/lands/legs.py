"""Each way from the topic to the table: ours, Spark's own JDBC sink, and a bare COPY from as many tasks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from bench.lands.rows import COLUMNS, PARTITIONS, SCHEMA
from bench.lands.stage import Landed, Stage
from seamark.tables.definition import Mode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def land_ours(stage: Stage, mode: Mode) -> Landed:
    """`run_landing`, from the claim to the ledger's last move."""
    from seamark.pipelines.spark_job import LandEnds, run_landing  # noqa: PLC0415 - the list of benches needs no Spark

    ends = LandEnds({"kafka.bootstrap.servers": stage.servers}, target=stage.postgres.dsn)
    run_landing(stage.spark, stage.build_landing(mode), ends, records=stage.records)
    return Landed(stage.table)


def land_lake(stage: Stage) -> Landed:
    """`run_landing` into a table of Delta, from the table's making to the last commit."""
    from seamark.pipelines.spark_job import LandEnds, run_landing  # noqa: PLC0415
    from seamark.tables.delta.schema import make_fit  # noqa: PLC0415
    from seamark.tables.delta.table import LakeTable  # noqa: PLC0415

    landing = stage.build_lake_landing()
    table = LakeTable(stage.lake.below(landing.table), owner=landing.owner)
    make_fit(table, landing)
    ends = LandEnds({"kafka.bootstrap.servers": stage.servers}, target=stage.lake)
    run_landing(stage.spark, landing, ends, records=stage.records)
    return Landed(stage.table, is_lake=True)


def land_delta(stage: Stage) -> Landed:
    """`df.write.format("delta")` of the same rows."""
    from pyspark.sql import functions as sf  # noqa: PLC0415

    rows = build_rows(stage).withColumn("placed_at", sf.col("placed_at").cast("timestamp"))
    rows.write.format("delta").mode("append").save(str(stage.folder / stage.table))
    return Landed(stage.table, is_lake=True)


def land_jdbc(stage: Stage) -> Landed:
    """`df.write.jdbc`, each task a transaction, with the driver's own rewriting of batches."""
    postgres = stage.postgres
    url = f"jdbc:postgresql://{postgres.host}:{postgres.port}/{postgres.database}?reWriteBatchedInserts=true"
    properties = {
        "user": postgres.user,
        "password": postgres.password,
        "driver": "org.postgresql.Driver",
        "batchsize": "10000",
        # PostgreSQL takes a text for a moment only if the driver does not say that it is a text.
        "stringtype": "unspecified",
    }
    build_rows(stage).write.jdbc(url, stage.table, mode="append", properties=properties)
    return Landed(stage.table)


def land_copy(stage: Stage) -> Landed:
    """COPY from each task, without anything around it."""
    from bench.lands.copy_sink import CopySink  # noqa: PLC0415

    stage.spark.dataSource.register(CopySink)
    names = ", ".join(column.name for column in COLUMNS)
    options = {
        "statement": f"COPY {stage.table} ({names}) FROM STDIN (FORMAT csv)",
        "database.url": stage.postgres.dsn,
    }
    build_rows(stage).write.format(CopySink.name()).mode("append").options(**options).save()
    return Landed(stage.table)


def build_rows(stage: Stage) -> DataFrame:
    """The same rows as ours, by the same functions of Spark, with the settings that ours reads with."""
    from pyspark.sql import functions as sf  # noqa: PLC0415

    from seamark.spark.settings import build_source_options  # noqa: PLC0415

    options = build_source_options({"kafka.bootstrap.servers": stage.servers})
    reader = stage.spark.read.format("kafka").options(**{**options, "includeHeaders": "false"})
    places = json.dumps({stage.topic: list(range(PARTITIONS))})
    parsed = sf.from_json(sf.col("value").cast("string"), SCHEMA).alias("row")
    names = [f"row.{column.name}" for column in COLUMNS]
    return reader.option("assign", places).load().select(parsed).select(*names)
