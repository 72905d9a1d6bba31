"""What a commit says of moments at the ends of time. No server is asked."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seamark.tables.delta.files import build_stats

MOMENT = pa.timestamp("us", "UTC")
SCHEMA = pa.schema([("at", MOMENT), ("day", pa.date32()), ("note", pa.string())])
LAST = 253_402_300_799_999_999


def find_stats(folder, moments, days=(0,), notes=("a",)):
    columns = [
        pa.array(moments, pa.int64()).cast(MOMENT),
        pa.array(days, pa.int32()).cast(pa.date32()),
        pa.array(notes),
    ]
    length = max(len(one) for one in columns)
    columns = [pa.concat_arrays([one] * (length // len(one))) for one in columns]
    pq.write_table(pa.Table.from_arrays(columns, schema=SCHEMA), folder / "one.parquet")
    return json.loads(build_stats(pq.read_metadata(folder / "one.parquet"), SCHEMA))


def test_years_have_four_digits(tmp_path):
    first = int(datetime(1, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
    found = find_stats(tmp_path, [first, 123_456], days=[-719_162, 0])
    assert (found["minValues"]["at"], found["maxValues"]["at"]) == (
        "0001-01-01T00:00:00.000Z",
        "1970-01-01T00:00:00.124Z",
    )
    assert (found["minValues"]["day"], found["maxValues"]["day"]) == ("0001-01-01", "1970-01-01")


def test_most_that_can_not_be_rounded_up_is_left_out(tmp_path):
    found = find_stats(tmp_path, [0, LAST])
    assert found["minValues"]["at"] == "1970-01-01T00:00:00.000Z"
    assert "at" not in found["maxValues"]
    assert found["numRecords"] == 2


@pytest.mark.parametrize(("moment", "day"), [(LAST + 1, 2_932_897), (-62_135_596_800_000_001, -719_163)])
def test_years_that_python_does_not_know_are_left_out(tmp_path, moment, day):
    found = find_stats(tmp_path, [moment], days=[day], notes=["x" * 40])
    assert (found["minValues"], found["maxValues"]) == ({}, {})
    assert found["nullCount"] == {"at": 0, "day": 0, "note": 0}


def test_no_number_is_called_the_most_where_one_may_be_none(tmp_path):
    schema = pa.schema([("weight", pa.float64())])
    pq.write_table(pa.table({"weight": [1.0, float("nan")]}, schema=schema), tmp_path / "one.parquet")
    found = json.loads(build_stats(pq.read_metadata(tmp_path / "one.parquet"), schema))
    # Spark looks for what is more than 5 and means NaN too.
    assert (found["minValues"], found["maxValues"]) == ({"weight": 1.0}, {})
