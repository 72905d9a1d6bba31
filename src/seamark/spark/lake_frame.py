"""Records as rows of a lake's table: texts become moments, dates and numbers here, as nobody does it later."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from seamark.model.ledger_entry import OFFSET
from seamark.pipelines.lake_column import DATE_COLUMN, DEAD_LETTER, find_lake_type
from seamark.pipelines.landing import Landing, OnError
from seamark.spark.land_frame import KEY, PARTITION, REASON, TIMESTAMP, VALUE, build_land_frame

_TURNED = "seamark_turned_"
_ZONE = "spark.sql.session.timeZone"
# Connect's JSON has moments as milliseconds.
_MILLISECONDS = r"^-?[0-9]{1,17}$"


def build_lake_frame(records: DataFrame, landing: Landing) -> DataFrame:
    """The rows of these records. What is none has its reason, and nulls in its columns."""
    # A moment without its zone is one of UTC. The session is the landing's own.
    records.sparkSession.conf.set(_ZONE, "UTC")
    read = build_land_frame(records, landing)
    kinds = {column.name: find_lake_type(column) for column in landing.columns}
    types = dict(read.dtypes)
    changed = [name for name, kind in kinds.items() if types[name] != kind]
    # A step of its own, so that Spark turns each text once: it is asked for in the reason and in the column.
    turned = read.select("*", *(_turn(name, types[name], kinds[name]).alias(_TURNED + name) for name in changed))
    reasons = [_build_reason(name, kinds[name]) for name in changed]
    told = turned.withColumn(REASON, reduce(sf.coalesce, [sf.col(REASON), *reasons]))
    is_dead_letter = landing.on_error is OnError.DEAD_LETTER
    columns = {name: sf.col(f"`{_TURNED if name in changed else ''}{name}`") for name in kinds}
    if landing.date_from:
        columns[DATE_COLUMN] = sf.to_date(columns[landing.date_from])
    if is_dead_letter:
        columns = {name: sf.when(sf.col(REASON).isNull(), column) for name, column in columns.items()}
        columns[DEAD_LETTER] = _build_letter(landing)
    named = [column.alias(name) for name, column in columns.items()]
    return told.select(*named, sf.col(PARTITION), sf.col(OFFSET), sf.col(REASON))


def _turn(name: str, found: str, kind: str) -> Column:
    column = sf.col(f"`{name}`")
    if found == kind:
        return column
    if found == "string" and kind == "timestamp":
        moment, millis = column.try_cast("timestamp"), sf.timestamp_millis(column.try_cast("bigint"))
        # Most are dates with their dashes, and Spark's patterns are dear.
        is_dated = sf.locate("-", column, 2) > 0
        return sf.when(is_dated, moment).when(column.rlike(_MILLISECONDS), millis).otherwise(moment)
    return column.try_cast(kind)


def _build_reason(name: str, kind: str) -> Column:
    """Why a column's text or number could not be turned."""
    is_lost = sf.col(f"`{name}`").isNotNull() & sf.col(f"`{_TURNED}{name}`").isNull()
    return sf.when(is_lost, sf.lit(f"its {name} is no {kind}"))


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
