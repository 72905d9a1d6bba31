"""Texts and numbers as moments and dates of a lake: what no reader could take is no row, and the landing goes on."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from seamark.pipelines.spark_delta import LakeTarget
from seamark.tables.definition import DeadLetters, LandColumn, Landing
from seamark.tables.delta.files import make_fit
from seamark.tables.delta.location import TableLocation
from seamark.tables.delta.table import LakeTable
from seamark.tables.model import LedgerAdvance, LedgerEntry

SCHEMA = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp"
SENT = datetime(2026, 11, 16, 10, 0, 0, 123_000, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
FIRST = datetime(1, 1, 1, tzinfo=UTC)

MOMENTS = {
    "2026-11-16T10:00:00.123Z": SENT,
    1_794_823_200_123: SENT,
    "9999-12-31T23:59:59.999999Z": LAST,
    253_402_300_799_999: LAST.replace(microsecond=999_000),
    "0001-01-01T00:00:00Z": FIRST,
    -62_135_596_800_000: FIRST,
    2024: EPOCH + timedelta(milliseconds=2024),
    -1: EPOCH - timedelta(milliseconds=1),
    # Microseconds for milliseconds; more than Spark can count; a year too far, and one too early.
    1_794_823_200_123_456: None,
    253_402_300_800_000: None,
    9_223_372_036_854_775: None,
    9_223_372_036_854_776: None,
    99_999_999_999_999_999: None,
    2**63 - 1: None,
    "9999-12-31T23:59:59.999999-05:00": None,
    "+10000-01-01T00:00:00Z": None,
    "0000-12-31T23:59:59Z": None,
    # Of which day?
    "10:00": None,
    "noon": None,
}
DAYS = {
    "2026-11-16": date(2026, 11, 16),
    "2026-11-16T10:00:00Z": date(2026, 11, 16),
    19_723: date(2024, 1, 1),
    "19723": date(2024, 1, 1),
    -1: date(1969, 12, 31),
    2_932_896: date.max,
    -719_162: date.min,
    2_932_897: None,
    -719_163: None,
    1_794_823_200_123: None,
    2**31: None,
    "+19723-01-01": None,
    "0000-12-31": None,
    "noon": None,
}


def build(columns, **more):
    more = {"store": "delta", "dead_letters": DeadLetters(), **more}
    return Landing("events", topic="events", table="events", columns=columns, **more)


def build_records(spark, values, sent=SENT):
    return spark.createDataFrame(
        [(None, json.dumps({"at": value}).encode(), "events", 0, number, sent) for number, value in enumerate(values)],
        SCHEMA,
    )


def land(records, landing, folder):
    """Land them as one batch; gives what was landed, and all rows."""
    lake, session = TableLocation(f"{folder}/lake"), records.sparkSession
    make_fit(LakeTable(lake.below(landing.table), owner=landing.owner), landing)
    target = LakeTarget(landing, lake)
    target.prepare(session)
    (entry,) = target.claim([LedgerEntry("events", "t1", 0, next_offset=0)])
    landed = target.land(target.build_rows(records), [LedgerAdvance(entry, records.count())], number=0)
    return landed, DeltaTable(lake.below(landing.table).table_url).to_pyarrow_table().to_pylist()


@pytest.mark.parametrize(("kind", "values"), [("timestamp", MOMENTS), ("date", DAYS)])
def test_what_is_of_no_known_year_is_a_dead_letter(spark, tmp_path, kind, values):
    columns = (LandColumn("place", "bigint", "kafka.offset"), LandColumn("at", kind))
    landing = build(columns, date_from="at")
    landed, found = land(build_records(spark.newSession(), values), landing, tmp_path)
    rows = {row["place"]: row["at"] for row in found if row["seamark_dead_letter"] is None}
    wanted = {number: value for number, value in enumerate(values.values()) if value is not None}
    assert rows == wanted
    dead = {one["offset"]: one["reason"] for row in found if (one := row["seamark_dead_letter"])}
    reason = f"invalid {kind} in column at: expected years 1 to 9999"
    assert dead == {number: reason for number, value in enumerate(values.values()) if value is None}
    assert landed.dead == len(dead)
    dates = {row["event_date"] for row in found if row["place"] is not None}
    assert dates == {value.date() if isinstance(value, datetime) else value for value in wanted.values()}


@pytest.mark.parametrize("value", [1_794_823_200_123_456, 9_223_372_036_854_776])
def test_moment_of_no_known_year_stops_a_landing_that_may_not_go_on(spark, tmp_path, value):
    landing = build((LandColumn("at", "timestamp"),), dead_letters=None, date_from="at")
    with pytest.raises(Exception, match="record events-0@1 can't be a row of events"):
        land(build_records(spark.newSession(), [0, value]), landing, tmp_path)


def test_kafkas_own_moment_is_milliseconds_where_a_number_is_asked_for(spark, tmp_path):
    columns = (
        LandColumn("sent", "bigint", "kafka.timestamp"),
        LandColumn("exact", "decimal(20)", "kafka.timestamp"),
        LandColumn("moment", "timestamp", "kafka.timestamp"),
        LandColumn("day", "date", "kafka.timestamp"),
    )
    _, (row,) = land(build_records(spark.newSession(), ["x"]), build(columns), tmp_path)
    millis = 1_794_823_200_123
    assert (row["sent"], row["exact"], row["moment"], row["day"]) == (millis, millis, SENT, SENT.date())


def test_kafkas_own_moment_of_a_far_year_is_a_dead_letter(spark, tmp_path):
    records = build_records(spark.newSession(), ["x"]).selectExpr(
        "key", "value", "topic", "partition", "offset", "timestamp_micros(560230560000000000) AS timestamp"
    )
    landing = build((LandColumn("sent", "timestamp", "kafka.timestamp"),), date_from="sent")
    _, (row,) = land(records, landing, tmp_path)
    letter = row["seamark_dead_letter"]
    assert (letter["reason"], letter["timestamp"]) == (
        "invalid timestamp in column sent: expected years 1 to 9999",
        None,
    )
    assert [path.parent.name for path in Path(tmp_path).rglob("part-*")] == ["event_date=__HIVE_DEFAULT_PARTITION__"]
