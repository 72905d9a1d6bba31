"""Topics landed in a lake: each record is a row once, and the table's last commit says how far."""

from __future__ import annotations

import threading
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from seamark.errors import FencedError, RejectedError
from seamark.kafka.model import OffsetSpec
from seamark.tables.definition import DeadLetters, Format, LandColumn
from tests.spark.lake_stage import COLUMNS, LAKES, open_lake_stage


@pytest.fixture
def open_stage(stack, kafka):
    return lambda **more: open_lake_stage(stack, kafka, **more)


def rows(first, last, word="w"):
    return [{"number": number, "words": f"{word}{number}"} for number in range(first, last)]


@pytest.mark.parametrize("kind", LAKES)
def test_each_record_is_a_row_and_a_second_run_goes_on(spark, open_stage, kind):
    seen = []
    with open_stage(kind=kind) as stage:
        stage.produce(rows(0, 3000))
        # What was taken back, and the marks of transactions, have offsets too, and are no rows.
        stage.produce(rows(9000, 9300), **{"transactional.id": stage.name}).abort_transaction(30)
        stage.produce(rows(3000, 3300), **{"transactional.id": stage.name}).commit_transaction(30)
        stage.run(spark, records=1500, on_batch=seen.append)
        assert stage.read("number", "words") == [(number, f"w{number}") for number in range(3300)]
        assert len(set(stage.read("part", "place"))) == 3300
        assert stage.read_ledger() == stage.read_ends() == stage.read_group(stage.build().group)
        assert len(seen) > 1
        assert sum(batch.rows for batch in seen) == 3300
        before = stage.table().version()
        stage.run(spark)
        # Nothing to land is nothing to commit.
        assert stage.table().version() == before
        stage.produce(rows(3300, 3400))
        stage.run(spark)
        assert stage.read("number") == [(number,) for number in range(3400)]
        assert stage.read_ledger() == stage.read_ends()


def test_run_that_begins_at_the_end_and_lands_nothing_is_where_the_next_begins(spark, open_stage):
    with open_stage(partitions=2) as stage:
        stage.produce(rows(0, 100))
        ends = stage.read_ends()
        stage.run(spark, start=OffsetSpec.LATEST)
        assert (stage.read("number"), stage.read_ledger()) == ([], ends)
        stage.produce(rows(100, 110))
        stage.run(spark, start=OffsetSpec.LATEST)
        assert stage.read("number") == [(number,) for number in range(100, 110)]


def test_columns_are_of_their_types_and_late_rows_go_to_their_date(spark, open_stage):
    columns = (
        LandColumn("id", "int"),
        LandColumn("at", "timestamptz"),
        LandColumn("amount", "numeric(20, 6)", "value.price.amount"),
        LandColumn("day", "date"),
        LandColumn("rate", "real"),
        LandColumn("more", "jsonb"),
        LandColumn("sent", "timestamp", "kafka.timestamp"),
    )
    exact = b'{"id": 4, "at": "2026-11-16T00:00:00.5+09:00", "price": {"amount": 12345678901234.123456}}'
    with open_stage(kind="s3", partitions=1) as stage:
        stage.produce(
            [
                {"id": 1, "at": "2026-11-16T10:00:00Z", "day": "2026-02-28", "rate": 0.5, "more": {"a": [1]}},
                # Connect's own way, late by years, and one without its zone.
                {"id": 2, "at": 1_500_000_000_123},
                {"id": 3, "at": "2026-11-16 23:59:59"},
                exact,
                {"id": 5, "at": None},
            ]
        )
        landing = stage.build(columns, date_from="at")
        stage.run(spark, landing)
        found = stage.read("id", "at", "event_date")
        assert found == [
            (1, datetime(2026, 11, 16, 10, tzinfo=UTC), date(2026, 11, 16)),
            (2, datetime(2017, 7, 14, 2, 40, 0, 123_000, tzinfo=UTC), date(2017, 7, 14)),
            (3, datetime(2026, 11, 16, 23, 59, 59, tzinfo=UTC), date(2026, 11, 16)),
            (4, datetime(2026, 11, 15, 15, 0, 0, 500_000, tzinfo=UTC), date(2026, 11, 15)),
            (5, None, None),
        ]
        table = stage.table().to_pyarrow_table().sort_by("id").to_pylist()
        assert (table[0]["day"], table[0]["rate"], table[0]["more"]) == (date(2026, 2, 28), 0.5, '{"a":[1]}')
        assert table[3]["amount"] == Decimal("12345678901234.123456")
        assert all(row["sent"] is not None for row in table)
        assert len(stage.table().partitions()) == 4


def test_moments_are_of_utc_and_the_users_session_stays_as_it_is(spark, open_stage):
    zone = "spark.sql.session.timeZone"
    session = spark.newSession()
    session.conf.set(zone, "Asia/Seoul")
    before = session.conf.getAll
    with open_stage(partitions=1) as stage:
        stage.produce([{"number": 1, "at": "2026-11-16 23:59:59"}])
        stage.run(session, stage.build((LandColumn("number", "int"), LandColumn("at", "timestamptz"))))
        assert stage.read("number", "at") == [(1, datetime(2026, 11, 16, 23, 59, 59, tzinfo=UTC))]
    after = session.conf.getAll
    # Delta sets some of its own when a session begins to work.
    assert before.items() <= after.items()
    assert not [key for key in after if "checkpoint" in key]


def test_spark_reads_what_was_landed(spark, open_stage):
    with open_stage(partitions=2) as stage:
        stage.produce(rows(0, 500))
        stage.run(spark, stage.build(date_from="sent", columns=(*COLUMNS, LandColumn("sent", "date"))))
        session = spark.newSession()
        found = session.read.format("delta").load(stage.lake.below("raw/events").table_url)
        assert found.where("number >= 250").count() == 250
        assert found.where("event_date IS NULL").count() == 500
        history = session.sql(f"DESCRIBE HISTORY delta.`{stage.lake.below('raw/events').table_url}`").collect()
        assert stage.topic in history[0]["userMetadata"]


def test_what_can_not_be_a_row_is_kept_with_its_reason(spark, open_stage):
    columns = (*COLUMNS, LandColumn("at", "timestamptz"))
    bad = [b"{", {"number": "x"}, None, {"number": 2**63}, {"number": 1, "at": "noon"}]
    with open_stage(partitions=1) as stage:
        stage.produce([*rows(0, 50), *bad, *rows(50, 100)])
        seen = []
        stage.run(spark, stage.build(columns, dead_letters=DeadLetters(), date_from="at"), on_batch=seen.append)
        table = stage.table().to_pyarrow_table().sort_by("number").to_pylist()
        assert [row["number"] for row in table if row["seamark_dead_letter"] is None] == list(range(100))
        dead = sorted(
            (row["seamark_dead_letter"] for row in table if row["number"] is None), key=lambda one: one["offset"]
        )
        assert [(one["offset"], one["reason"]) for one in dead] == [
            (50, "the value is not valid JSON for the columns"),
            (51, "the value is not valid JSON for the columns"),
            (52, "the value is null"),
            (53, "the value is not valid JSON for the columns"),
            (54, "invalid timestamp in column at: expected years 1 to 9999"),
        ]
        assert dead[0]["value"] == b"{"
        assert (seen[0].rows, seen[0].dead) == (100, 5)


def test_bad_record_stops_the_landing_and_commits_nothing(spark, open_stage):
    with open_stage(partitions=1) as stage:
        stage.produce([*rows(0, 50), b"{"])
        with pytest.raises(Exception, match=rf"record {stage.topic}-0@50 can't be a row of raw/events"):
            stage.run(spark)
        assert stage.read("number") == []
        assert stage.read_ledger() == {0: 0}


def test_bad_records_of_small_ranges_are_counted_together_before_the_commit(spark, open_stage):
    with open_stage(partitions=3) as stage:
        stage.produce([b"{"] * 1200)
        with pytest.raises(RejectedError) as error:
            stage.run(spark, stage.build(dead_letters=DeadLetters()))
        assert error.value.message.startswith(f"1,200 of 1,200 records of {stage.topic} can't be rows")
        assert stage.read_ledger() == {0: 0, 1: 0, 2: 0}
        assert stage.table().to_pyarrow_table().num_rows == 0


def test_range_with_too_many_bad_records_stops_the_run_at_its_first_attempt(spark, open_stage):
    with open_stage(partitions=1) as stage:
        stage.produce([b"{"] * 1001)
        with pytest.raises(RejectedError) as error:
            stage.run(spark, stage.build(dead_letters=DeadLetters()))
        assert error.value.cause.endswith("of 1,001 records: the value is not valid JSON for the columns")
        assert stage.read_ledger() == {0: 0}


def test_keys_of_the_lake_are_in_no_event_and_no_failure(spark, open_stage, stack):
    folder = Path(spark.sparkContext.getConf().get("spark.eventLog.dir").removeprefix("file:"))
    secret = stack.s3.secret_key
    assert len(secret) > 8
    with open_stage(kind="s3", partitions=1) as stage:
        stage.produce([*rows(0, 10), b"{"])
        with pytest.raises(Exception, match="can't be a row of raw/events") as error:
            stage.run(spark)
    events = [file.read_text(encoding="utf-8", errors="replace") for file in folder.iterdir()]
    assert any("MapInArrow seamark" in text for text in events)
    assert not [text for text in [*events, str(error.value)] if secret in text]


def test_new_column_is_there_from_then_on(spark, open_stage):
    with open_stage(partitions=1) as stage:
        stage.produce([{"number": 1, "words": "a"}])
        stage.run(spark)
        stage.produce([{"number": 2, "words": "b", "mood": "good"}])
        stage.run(spark, stage.build((*COLUMNS, LandColumn("mood", "text"))))
        assert stage.table().to_pyarrow_table().sort_by("number").column("mood").to_pylist() == [None, "good"]


def test_changes_of_debezium_are_landed_as_what_happened(spark, open_stage):
    with open_stage(partitions=1) as stage:
        change = {"before": None, "after": {"number": 1, "words": "a"}, "op": "c"}
        stage.produce([change, {**change, "op": "u"}])
        stage.run(spark, stage.build(format=Format.DEBEZIUM))
        assert stage.read("number", "words") == [(1, "a"), (1, "a")]


def test_of_two_runs_one_has_the_batch_and_each_record_is_there_once(spark, open_stage):
    with open_stage() as stage:
        stage.produce(rows(0, 3000))
        stage.make()
        ends = []

        def run():
            try:
                stage.run(spark, records=300)
                ends.append(None)
            except FencedError as error:
                ends.append(error)

        threads = [threading.Thread(target=run) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(300)
        assert len(ends) == 2
        stage.run(spark)
        assert stage.read("number") == [(number,) for number in range(3000)]
        assert stage.read_ledger() == stage.read_ends()


def test_offsets_that_are_moved_end_the_run_and_are_where_the_next_begins(spark, open_stage):
    with open_stage(partitions=1) as stage:
        stage.produce(rows(0, 1000))

        def move(batch):
            if batch.number == 0:
                (entry,) = stage.open().read().values()
                stage.open().place([type(entry)(entry.topic, entry.topic_id, 0, next_offset=40)])

        with pytest.raises(FencedError):
            stage.run(spark, records=100, on_batch=move)
        assert stage.read_ledger() == {0: 40}
        stage.run(spark)
        numbers = [number for (number,) in stage.read("number")]
        assert numbers == sorted([*range(100), *range(40, 1000)])
