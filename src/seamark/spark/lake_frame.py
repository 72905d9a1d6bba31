"""Records as rows of a lake's table: texts become moments, dates and numbers here, as nobody does it later."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from seamark.model.ledger_entry import OFFSET
from seamark.pipelines.lake_column import DATE_COLUMN, DEAD_LETTER, find_lake_type
from seamark.pipelines.landing import Landing, OnError
from seamark.spark.land_frame import KEY, PARTITION, REASON, TIMESTAMP, VALUE, build_land_frame

_ZONE = "spark.sql.session.timeZone"
# Connect's JSON has moments as milliseconds.
_MILLISECONDS = r"^-?[0-9]{1,17}$"


def build_lake_frame(records: DataFrame, landing: Landing) -> DataFrame:
    """The rows of these records. What is none has its reason, and nulls in its columns."""
    # A moment without its zone is one of UTC. The session is the batch's own, and ends with it.
    records.sparkSession.conf.set(_ZONE, "UTC")
    read = build_land_frame(records, landing)
    kinds = {column.name: find_lake_type(column) for column in landing.columns}
    types = dict(read.dtypes)
    turned = {name: _turn(name, types[name], kind) for name, kind in kinds.items()}
    read = read.withColumn(REASON, reduce(sf.coalesce, [sf.col(REASON), *_list_reasons(turned, types, kinds)]))
    columns = [sf.when(sf.col(REASON).isNull(), column).alias(name) for name, column in turned.items()]
    dates = []
    if landing.date_from:
        dates = [sf.when(sf.col(REASON).isNull(), sf.to_date(turned[landing.date_from])).alias(DATE_COLUMN)]
    letter = [_build_letter(landing).alias(DEAD_LETTER)] if landing.on_error is OnError.DEAD_LETTER else []
    return read.select(*columns, *letter, *dates, sf.col(PARTITION), sf.col(OFFSET), sf.col(REASON))


def _turn(name: str, found: str, kind: str) -> Column:
    column = sf.col(f"`{name}`")
    if found == kind:
        return column
    if found == "string" and kind == "timestamp":
        millis = sf.timestamp_millis(column.try_cast("bigint"))
        return sf.when(column.rlike(_MILLISECONDS), millis).otherwise(column.try_cast("timestamp"))
    return column.try_cast(kind)


def _list_reasons(turned: dict[str, Column], types: dict[str, str], kinds: dict[str, str]) -> list[Column]:
    """For each column that a text or number was turned to: why it could not be."""
    return [
        sf.when(sf.col(f"`{name}`").isNotNull() & column.isNull(), sf.lit(f"its {name} is no {kinds[name]}"))
        for name, column in turned.items()
        if types[name] != kinds[name]
    ]


def _build_letter(landing: Landing) -> Column:
    letter = sf.struct(
        sf.col(REASON).alias("reason"),
        sf.lit(landing.topic).alias("topic"),
        sf.col(PARTITION).alias("partition"),
        sf.col(OFFSET).alias("offset"),
        sf.col(TIMESTAMP).alias("timestamp"),
        sf.col(KEY).alias("key"),
        sf.col(VALUE).alias("value"),
    )
    return sf.when(sf.col(REASON).isNotNull(), letter)
