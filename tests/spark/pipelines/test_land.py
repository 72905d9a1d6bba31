"""Topics landed in PostgreSQL: each record is a row once, and the ledger says how far."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from seamark.errors import FencedError, RefusedError, RejectedError
from seamark.kafka.model import OffsetSpec
from seamark.pipelines.spark_frame import REASON, build_land_frame
from seamark.tables.definition import Format, LandColumn, Landing, Mode
from seamark.tables.model import OFFSET
from tests.spark.kafka_side import WAIT_SECONDS
from tests.spark.land_stage import COLUMNS, open_land_stage


@pytest.fixture
def open_stage(stack, kafka):
    return lambda **more: open_land_stage(stack, kafka, **more)


def rows(first, last, word="w"):
    return [{"number": number, "words": f"{word}{number}"} for number in range(first, last)]


def test_each_record_is_a_row_and_a_second_run_goes_on(spark, open_stage):
    seen = []
    with open_stage() as stage:
        stage.produce(rows(0, 3000))
        # What was taken back, and the marks of transactions, have offsets too, and are no rows.
        stage.produce(rows(9000, 9300), **{"transactional.id": stage.name}).abort_transaction(30)
        stage.produce(rows(3000, 3300), **{"transactional.id": stage.name}).commit_transaction(30)
        stage.run(spark, records=1500, on_batch=seen.append)
        found = stage.read("SELECT number, words FROM {table} ORDER BY 1")
        assert found == [(number, f"w{number}") for number in range(3300)]
        assert stage.read("SELECT count(DISTINCT (part, place)) FROM {table}") == [(3300,)]
        assert stage.read_ledger() == stage.read_ends() == stage.read_group(stage.build().group)
        assert len(seen) > 1
        assert sum(batch.rows for batch in seen) == 3300
        stage.run(spark)
        stage.produce(rows(3300, 3400))
        stage.run(spark)
        assert stage.read("SELECT count(*), count(DISTINCT number) FROM {table}") == [(3400, 3400)]
        assert stage.read_ledger() == stage.read_ends()


def test_progress_of_each_batch_is_told(spark, open_stage):
    seen, batches = [], []
    with open_stage() as stage:
        stage.produce(rows(0, 3000))
        began = time.time() * 1000
        # Another query of the session is not told of.
        other = spark.readStream.format("rate").load().writeStream.format("noop").start()
        try:
            stage.run(spark, records=1200, on_batch=batches.append, on_progress=seen.append)
        finally:
            other.stop()
        assert [one.batch for one in seen] == [one.number for one in batches] == [0, 1, 2]
        assert [one.records for one in seen] == [one.rows for one in batches] == [1200, 1200, 600]
        assert [one.behind for one in seen] == [1800, 600, 0]
        assert all(one.seconds > 0 and abs(one.newest - began) < 600_000 for one in seen)
        assert stage.read_ledger() == stage.read_ends()


def test_columns_are_what_postgres_makes_of_them(spark, open_stage):
    columns = (
        LandColumn("id", "uuid"),
        LandColumn("amount", "numeric(20, 6)", "value.price.amount"),
        LandColumn("at", "timestamptz"),
        LandColumn("is_paid", "boolean"),
        LandColumn("rate", "double precision"),
        LandColumn("more", "jsonb"),
        LandColumn("sent", "timestamptz", "kafka.timestamp"),
        LandColumn("whose", "text", "key"),
    )
    table = (
        "id uuid, amount numeric(20, 6), at timestamptz, is_paid boolean, rate double precision, more jsonb, "
        "sent timestamptz, whose text"
    )
    with open_stage(table=table) as stage:
        one = "6f9619ff-8b86-d011-b42d-00c04fc964ff"
        value = {
            "id": one,
            "price": {"amount": 0},
            "at": "2026-11-16T10:00:00+09:00",
            "is_paid": True,
            "rate": 0.1,
            "more": {"a": [1, None, '\u00e9\n"x",']},
            "unknown": 1,
        }
        # More digits than a floating number has.
        exact = json.dumps(value).replace('"amount": 0', '"amount": 12345678901234.123456').encode()
        stage.produce([exact, {"id": None, "more": None}], keys=[b'k,"\n', None])
        stage.run(spark, stage.build(columns))
        text = (
            "SELECT id::text, amount::text, at AT TIME ZONE 'UTC' = '2026-11-16 01:00', is_paid, rate, more, "
            "now() - sent < interval '10 minutes', whose FROM {table} ORDER BY 1 NULLS LAST"
        )
        first, second = stage.read(text)
        assert first == (one, "12345678901234.123456", True, True, 0.1, value["more"], True, 'k,"\n')
        assert second == (None, None, None, None, None, None, True, None)


def test_what_can_not_be_a_row_is_kept_in_the_same_transaction(spark, open_stage):
    bad = [
        b"{",
        b"[1]",
        # Spark would take the object, and not tell of the list.
        b'[{"number": 7, "words": "a"}]',
        b"",
        b"5",
        {"number": "x"},
        None,
        b'{"number": 1, "words": "a\\u0000b"}',
        {"words": "123456789"},
        {"number": 2**63},
    ]
    with open_stage(partitions=1, table="part int, place bigint, number bigint, words varchar(8)") as stage:
        stage.produce([*rows(0, 50), *bad, *rows(50, 100)])
        stage.run(spark, stage.build(dead_letters=stage.letters))
        assert stage.read("SELECT count(*), count(DISTINCT number) FROM {table}") == [(100, 100)]
        dead = stage.read("SELECT record_offset, reason, record_value FROM {table}_dead ORDER BY 1")
        assert [place for place, _, _ in dead] == list(range(50, 60))
        assert [reason for _, reason, _ in dead] == [
            *["the value is not valid JSON for the columns"] * 6,
            "the value is null",
            'words: invalid byte sequence for encoding "UTF8": 0x00',
            "words: value too long for type character varying(8)",
            "the value is not valid JSON for the columns",
        ]
        assert dead[0][2] == b"{"
        assert dead[8][2] == b'{"words": "123456789"}'
        assert stage.read_ledger() == stage.read_ends()


@pytest.mark.parametrize("bad", [b"{", {"number": 1, "words": "123456789"}])
def test_bad_record_stops_the_landing_and_leaves_nothing_of_its_range(spark, open_stage, bad):
    with open_stage(partitions=1, table="part int, place bigint, number bigint, words varchar(8)") as stage:
        # Spark hands ten thousand at a time over, and all of them are one COPY.
        stage.produce([*rows(0, 12_000), bad, *rows(12_000, 25_000)])
        with pytest.raises(Exception, match=rf"record {stage.topic}-0@12000 can't be a row of {stage.name}"):
            stage.run(spark)
        assert stage.read("SELECT count(*) FROM {table}") == [(0,)]
        assert stage.read_ledger() == {0: 0}


def test_record_is_named_though_texts_before_it_have_lines(spark, open_stage):
    with open_stage(partitions=1, table="part int, place bigint, number bigint, words varchar(8)") as stage:
        lines = [{"number": number, "words": "\r\n"[: number % 3] + "\n"} for number in range(300)]
        stage.produce([*lines, {"number": 1, "words": "a\n23456789"}, *lines])
        with pytest.raises(Exception, match=rf"record {stage.topic}-0@300 can't be a row of {stage.name}"):
            stage.run(spark)
        assert stage.read("SELECT count(*) FROM {table}") == [(0,)]


def test_bad_records_of_small_ranges_are_counted_together(spark, open_stage):
    with open_stage(partitions=3) as stage:
        stage.produce([b"{"] * 1200)
        with pytest.raises(RejectedError) as error:
            stage.run(spark, stage.build(dead_letters=stage.letters))
        assert error.value.message.startswith(f"1,200 of 1,200 records of {stage.topic} can't be rows of {stage.name}")
        assert (
            error.value.cause == "the most common reason, of 1,200 records: the value is not valid JSON for the columns"
        )
        # Each range was within its limit, and had its own transaction.
        assert stage.read("SELECT count(*) FROM {table}_dead") == [(1200,)]
        assert stage.read_ledger() == stage.read_ends()


def test_record_that_may_not_replace_a_row_is_kept_or_named(spark, open_stage):
    columns = (LandColumn("number", "bigint"), LandColumn("words", "text"))
    with open_stage(partitions=1, table="number bigint PRIMARY KEY, words text CHECK (words <> 'no')") as stage:
        upsert = {"mode": Mode.UPSERT, "key": ("number",)}
        told = [(1, "a"), (2, "no"), (1, "b"), (1, "no"), (3, "c")]
        stage.produce([{"number": number, "words": words} for number, words in told])
        with pytest.raises(Exception, match=rf"record {stage.topic}-0@[13] can't be a row of {stage.name}"):
            stage.run(spark, stage.build(columns, **upsert))
        assert (stage.read("SELECT count(*) FROM {table}"), stage.read_ledger()) == ([(0,)], {0: 0})
        seen = []
        stage.run(spark, stage.build(columns, dead_letters=stage.letters, **upsert), on_batch=seen.append)
        assert stage.read("SELECT * FROM {table} ORDER BY 1") == [(1, "b"), (3, "c")]
        dead = stage.read("SELECT record_offset, record_value FROM {table}_dead ORDER BY 1")
        assert dead == [(1, b'{"number": 2, "words": "no"}'), (3, b'{"number": 1, "words": "no"}')]
        assert [(batch.rows, batch.dead) for batch in seen] == [(2, 2)]
        assert stage.read_ledger() == stage.read_ends()


def read_reasons(spark, records, *columns, **more):
    """What the frame of a landing says of (key, value)."""
    schema = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp"
    rows = [(key, value, "t", 0, place, None) for place, (key, value) in enumerate(records)]
    landing = Landing("x", topic="t", table="x", columns=columns, **more)
    found = build_land_frame(spark.createDataFrame(rows, schema), landing).orderBy(OFFSET).select(REASON).collect()
    return [reason for (reason,) in found]


def test_what_is_not_utf8_is_no_row(spark):
    words, whose = LandColumn("words", "text"), LandColumn("whose", "text", "key")
    values = [
        b'{"words": "\xff"}',
        b'{"words": "a\xc3"}',
        b'{"words": "\xed\xa0\x80"}',
        '{"words": "\u00e9\ufffd"}'.encode(),
        b'{"words": "\\ufffd", "number": 1}',
        # No column has it.
        b'{"words": "a", "other": "\xff"}',
        b'{"words": null}',
    ]
    bad = "the value is not valid UTF-8"
    assert read_reasons(spark, [(b"\xff", one) for one in values], words) == [bad, bad, bad, None, None, None, None]
    keys = [b"\xff", b"a\xc3", "\u00e9\ufffd".encode(), None, b""]
    wrong = "the key is not valid UTF-8"
    found = read_reasons(spark, [(key, b'{"words": "a"}') for key in keys], whose, words)
    assert found == [wrong, wrong, None, None, None]
    # Nobody asks what the value is.
    assert read_reasons(spark, [(b"\xff", b"\xff"), (b"a", b"\xff")], whose) == [wrong, None]
    field = LandColumn("id", "text", "key.id")
    found = read_reasons(spark, [(b'{"id": "\xff"}', b"{}"), (b'{"id": "a"}', b"{}")], field)
    assert found == [wrong, None]


def test_white_space_before_json_is_json(spark):
    values = [b'\n{"words": "a"}', b'\r\n\t {"words": "a"}\n', b"\n[1]", b"\v{}"]
    bad = "the value is not valid JSON for the columns"
    found = read_reasons(spark, [(None, value) for value in values], LandColumn("words", "text"))
    assert found == [None, None, bad, bad]


@pytest.mark.parametrize("kind", ["numeric (38, 10)", "dec(38,10)", "decimal(38, 10)"])
def test_numeric_keeps_its_digits_in_every_spelling(spark, kind):
    records = spark.createDataFrame(
        [(None, b'{"amount": 1234567890123456789012345678.0123456789}', "t", 0, 0, None)],
        "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp",
    )
    landing = Landing("x", topic="t", table="x", columns=(LandColumn("amount", kind),))
    ((amount,),) = build_land_frame(records, landing).select("amount").collect()
    assert amount == "1234567890123456789012345678.0123456789"


def test_rows_are_replaced_and_tombstones_delete_them(spark, open_stage):
    columns = (LandColumn("number", "bigint", "key.id"), LandColumn("words", "text"))
    with open_stage(table="number bigint PRIMARY KEY, words text, _seamark_order numeric[]") as stage:
        landing = stage.build(columns, mode=Mode.UPSERT, key=("number",), order=("kafka.timestamp",))
        keys = [{"id": number} for number in range(300)]
        stage.produce([{"words": "old"}] * 300, keys=keys)
        stage.produce([{"words": "new"}] * 150, keys=keys)
        stage.produce([None] * 30, keys=keys)
        stage.run(spark, landing, records=100)
        found = stage.read("SELECT words, min(number), count(*) FROM {table} GROUP BY 1 ORDER BY 1")
        assert found == [("new", 30, 120), ("old", 150, 150)]
        assert stage.read_ledger() == stage.read_ends()


@pytest.mark.parametrize("schemas", [False, True])
def test_changes_of_debezium_are_followed(spark, open_stage, schemas):
    def change(op, before, after):
        value = {"op": op, "before": before, "after": after, "source": {"lsn": 1}}
        return {"schema": {"type": "struct"}, "payload": value} if schemas else value

    def row(number, words):
        return {"number": number, "words": words}

    columns = COLUMNS[2:]
    with open_stage(partitions=1, table="number bigint PRIMARY KEY, words text") as stage:
        landing = stage.build(
            columns,
            mode=Mode.UPSERT,
            key=("number",),
            format=Format.DEBEZIUM,
            schemas=schemas,
            dead_letters=stage.letters,
        )
        stage.produce(
            [
                change("r", None, row(1, "a")),
                change("c", None, row(2, "b")),
                change("u", row(2, "b"), row(2, "c")),
                change("c", None, row(3, "d")),
                change("d", row(3, "d"), None),
                # As Debezium does.
                None,
                change("t", None, None),
                {"words": "no change at all"},
            ]
        )
        stage.run(spark, landing)
        assert stage.read("SELECT * FROM {table} ORDER BY 1") == [(1, "a"), (2, "c")]
        assert stage.read("SELECT record_offset FROM {table}_dead ORDER BY 1") == [(6,), (7,)]


def test_second_run_takes_over_and_the_first_stops(spark, open_stage):
    with open_stage() as stage:
        stage.produce(rows(0, 3000))
        second = []

        def take_over(batch):
            if not second:
                second.append(stage.run(spark))

        with pytest.raises(FencedError) as error:
            stage.run(spark, records=900, on_batch=take_over)
        assert error.value.cause == "another run has claimed it"
        assert stage.read("SELECT count(*), count(DISTINCT number) FROM {table}") == [(3000, 3000)]
        assert stage.read_ledger() == stage.read_ends()


def test_offsets_that_are_moved_back_are_landed_again(spark, open_stage):
    with open_stage(partitions=1) as stage:
        stage.produce(rows(0, 100))
        stage.run(spark)
        stage.move(0, to=40)
        stage.run(spark)
        assert stage.read("SELECT count(*), count(DISTINCT number) FROM {table}") == [(160, 100)]


def test_stream_goes_on_until_it_is_told_to_stop_and_follows_a_topic_that_grows(spark, open_stage, kafka):
    with open_stage(partitions=1) as stage:
        stage.produce(rows(0, 100))
        with running(spark, stage, every_seconds=0.5) as (thread, failures):
            wait_for(lambda: stage.read("SELECT count(*) FROM {table}") == [(100,)], thread)
            kafka.grow(stage.topic, 3)
            stage.partitions = 3
            stage.produce(rows(100, 200))
            wait_for(lambda: stage.read("SELECT count(*) FROM {table}") == [(200,)], thread)
            # And where nothing comes to the partitions that it knows.
            kafka.grow(stage.topic, 4)
            stage.partitions = 4
            stage.produce(rows(200, 250), partition=3)
            wait_for(lambda: stage.read("SELECT count(*) FROM {table}") == [(250,)], thread)
        assert failures == []
        assert stage.read("SELECT count(DISTINCT number) FROM {table}") == [(250,)]
        assert stage.read_ledger() == stage.read_ends()


def test_topic_that_is_made_anew_between_two_batches_is_not_taken_for_the_former(spark, open_stage, kafka):
    with open_stage(partitions=1) as stage:
        stage.produce(rows(0, 100))
        with running(spark, stage, every_seconds=8) as (thread, failures):
            wait_for(lambda: stage.read_ledger() == {0: 100}, thread)
            kafka.make_anew(stage.topic, partitions=1)
            # Its offsets go on where the former ones ended.
            stage.produce(rows(200, 350))
            thread.join(WAIT_SECONDS)
        assert [type(error) for error in failures] == [RefusedError]
        assert "was recreated" in str(failures[0])
        assert stage.read("SELECT count(*), max(number) FROM {table}") == [(100, 99)]
        stage.run(spark)
        assert stage.read("SELECT count(*), count(DISTINCT number) FROM {table}") == [(250, 250)]


def test_newest_is_where_a_transaction_began_that_is_still_open(spark, open_stage):
    with open_stage(partitions=1) as stage:
        stage.produce(rows(0, 100))
        producer = stage.produce(rows(100, 150), **{"transactional.id": stage.name})
        producer.flush(WAIT_SECONDS)
        stage.run(spark, start=OffsetSpec.LATEST)
        assert stage.read_ledger() == {0: 100}
        producer.commit_transaction(WAIT_SECONDS)
        stage.run(spark, start=OffsetSpec.LATEST)
        assert stage.read("SELECT count(*), min(number) FROM {table}") == [(50, 100)]


def test_password_is_in_no_event_and_no_failure(spark, open_stage, stack):
    # One that nothing else has in it.
    password = stack.postgres.password
    assert len(password) > 8
    with open_stage(partitions=1) as stage:
        stage.produce([*rows(0, 10), b"{"])
        with pytest.raises(Exception, match="can't be a row of") as error:
            stage.run(spark)
        assert stage.read_ledger() == {0: 0}
    folder = Path(spark.sparkContext.getConf().get("spark.eventLog.dir").removeprefix("file:"))
    events = [file.read_text(encoding="utf-8", errors="replace") for file in folder.iterdir()]
    # The plan of the batch is among them.
    assert any("SparkListenerSQLExecutionStart" in text and "MapInArrow seamark" in text for text in events)
    assert not [text for text in [*events, str(error.value)] if password in text]


def test_gap_and_a_topic_made_anew_are_refused(spark, open_stage, kafka):
    with open_stage(partitions=1) as stage:
        stage.produce(rows(0, 100))
        stage.run(spark)
        stage.produce(rows(100, 200))
        kafka.delete_records(stage.topic, {0: 150})
        with pytest.raises(RefusedError, match=r"starts at offset 150, and pipeline/.* is at 100"):
            stage.run(spark)
        kafka.make_anew(stage.topic, partitions=1)
        stage.produce(rows(200, 250))
        # Another topic: it begins anew.
        stage.run(spark)
        assert stage.read("SELECT count(*), max(number) FROM {table}") == [(150, 249)]


@contextmanager
def running(spark, stage, **more):
    """A landing in a thread of its own, told to stop at the end; and what it failed with."""
    stop, failures = threading.Event(), []

    def run():
        try:
            stage.run(spark, stop=stop, **more)
        except BaseException as error:  # noqa: BLE001 - told by the caller
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield thread, failures
    finally:
        stop.set()
        thread.join(WAIT_SECONDS)


def wait_for(is_so, thread, seconds=120):
    deadline = time.monotonic() + seconds
    while not is_so():
        assert thread.is_alive(), "the landing has ended"
        assert time.monotonic() < deadline, f"waited {seconds} s for rows"
        time.sleep(0.2)
