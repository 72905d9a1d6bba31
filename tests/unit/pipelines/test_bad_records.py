"""How many records that can't be rows a pipeline may have."""

from __future__ import annotations

import pytest

from seamark.errors import RejectedError, UsageError
from seamark.pipelines.bad_records import BadRecords, WrittenLetters
from seamark.tables.definition import DeadLetters, LandColumn, Landing


def build(most="10%", *, offsets=1_000_000, spent=0):
    return BadRecords(build_landing(most), spot="orders-3", offsets=offsets, spent=spent)


def build_landing(most):
    columns = (LandColumn("id", "bigint"),)
    return Landing("orders", topic="orders", table="orders", columns=columns, dead_letters=DeadLetters(max=most))


@pytest.mark.parametrize("most", ["", "0", "-1", "0%", "101%", "100.1%", "ten", "1,000", "5 %", "%", "1e3", "٣"])
def test_limit_that_can_not_be_one_is_refused(most):
    with pytest.raises(UsageError, match=r"on_error\.dead_letter\.max") as error:
        DeadLetters(max=most)
    assert error.value.hint == "write max: 1000 or max: 10%"


@pytest.mark.parametrize(
    ("most", "records", "spent", "allowed"),
    [
        ("10%", 600_000, 0, 60_000),
        ("10%", 10, 0, 1000),
        ("10%", 10_001, 0, 1000),
        ("0.5%", 600_000, 77, 3000),
        ("100%", 600_000, 0, 600_000),
        ("500", 600_000, 0, 500),
        ("500", 600_000, 499, 1),
        ("500", 600_000, 501, 0),
    ],
)
def test_limit_is_a_number_per_run_or_a_share_of_a_range(most, records, spent, allowed):
    assert DeadLetters(max=most).count_allowed(records, spent=spent) == allowed


def test_limit_survives_json():
    letters = DeadLetters("bad", "5%")
    assert DeadLetters.from_dict(letters.to_dict()) == letters


def test_table_has_a_default_in_postgresql_and_none_in_a_lake():
    landing = build_landing("5%")
    assert landing.dead_letter_table == "seamark_dead_letters"
    lake = Landing("x", topic="x", table="x", columns=landing.columns, dead_letters=DeadLetters(), store="delta")
    assert lake.dead_letter_table == ""
    assert Landing("x", topic="x", table="x", columns=landing.columns).dead_letter_table == ""


def test_share_is_counted_of_what_was_read_once_all_was():
    # 600,000 offsets, of which compaction has left 20,000.
    bad = build(offsets=600_000)
    bad.add({"why": 2_001}, records=20_000)
    with pytest.raises(RejectedError) as error:
        bad.end()
    assert error.value.message == (
        "2,001 of 20,000 records of orders-3 can't be rows of orders, more than on_error allows (max: 10%)"
    )
    within = build(offsets=600_000)
    within.add({"why": 2_000}, records=20_000)
    within.end()


def test_flood_ends_with_its_most_common_reason():
    bad = build("100")
    bad.add({"rare": 40, 'words: invalid input syntax for type inet: "a"': 30}, records=5000)
    with pytest.raises(RejectedError) as error:
        bad.add({f'words: invalid input syntax for type inet: "b{number}"': 1 for number in range(31)}, records=5000)
    assert error.value.cause == ("the most common reason, of 61 records: words: invalid input syntax for type inet")
    assert "on_error.dead_letter.max" in error.value.hint


@pytest.mark.parametrize("most", ["10%", "99.9%", "1000000"])
def test_range_of_which_all_is_bad_ends_after_ten_thousand_records(most):
    bad = build(most)
    bad.add({"why": 9_999}, records=9_999)
    with pytest.raises(RejectedError, match="10,000 of 10,000 records"):
        bad.add({"why": 1}, records=1)


def test_range_of_which_all_is_bad_is_kept_where_all_may_be():
    bad = build("100%", offsets=50_000)
    bad.add({"why": 50_000}, records=50_000)
    bad.end()


def test_reasons_take_bounded_memory():
    bad = build("100%")
    for number in range(1000):
        bad.add({f"reason {number}": 1}, records=1)
    assert len(bad.reasons) == 101
    assert bad.reasons["other reasons"] == 900
    assert (bad.dead, bad.records) == (1000, 1000)


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ('n: value "99999999999" is out of range for type integer', 'n: value "…" is out of range for type integer'),
        ('n: "1e400" is out of range for type double precision', 'n: "…" is out of range for type double precision'),
        ('d: invalid input syntax for type inet: "relation "x""', "d: invalid input syntax for type inet"),
        (
            'new row for relation "rows" violates check constraint "one"',
            'new row for relation "rows" violates check constraint "one"',
        ),
    ],
)
def test_error_shows_no_values(reason, word):
    bad = build("1")
    with pytest.raises(RejectedError) as error:
        bad.add({reason: 2}, records=5)
    assert error.value.cause == f"the most common reason, of 2 records: {word}"


def test_most_common_reason_is_one_that_is_known():
    bad = build("100%")
    for number in range(1000):
        bad.add({f"reason {number}": 1 + (number == 7)}, records=2)
    assert bad.describe_most_common() == "the most common reason, of 2 records: reason 7"


def count(records, dead, **reasons):
    return {"records": records, "dead": dead, "reasons": reasons or {"a": dead}}


def test_small_ranges_are_counted_together():
    written = WrittenLetters(build_landing("10%"))
    for _ in range(10):
        written.add([count(100, 100)])
    with pytest.raises(RejectedError) as error:
        written.add([count(100, 1)])
    assert error.value.message.startswith("1,001 of 1,100 records of orders can't be rows of orders")
    assert error.value.cause == "the most common reason, of 1,001 records: a"


def test_share_is_not_thinned_by_what_was_good_before():
    written = WrittenLetters(build_landing("10%"))
    written.add([count(10**9, 0)])
    with pytest.raises(RejectedError):
        written.add([count(100, 100)] * 11)


def test_small_ranges_that_are_all_bad_end_a_run_with_a_number_too():
    written = WrittenLetters(build_landing("1000000"))
    with pytest.raises(RejectedError, match="10,000 of 10,000 records of orders"):
        written.add([count(100, 100)] * 100)
    WrittenLetters(build_landing("100%")).add([count(100, 100)] * 100)


def test_reasons_of_a_run_take_bounded_memory():
    written = WrittenLetters(build_landing("1000000"))
    for number in range(1000):
        written.add([count(20_000, 1, **{f"reason {number}": 1})])
    assert len(written._reasons) == 101


def test_number_counts_for_all_partitions_and_batches_of_a_run():
    written = WrittenLetters(build_landing("100"))
    written.add([count(100, 60), count(100, 40, b=40)])
    assert written.written == 100
    with pytest.raises(RejectedError) as error:
        written.add([count(100, 50, b=50)])
    assert "150 records of this run" in error.value.message
    assert error.value.cause == "the most common reason, of 90 records: b"


def test_run_that_begins_again_counts_its_share_from_there():
    letters = WrittenLetters(build_landing("10%"))
    bad = {"records": 20_000, "dead": 20_000, "reasons": {"x": 20_000}}
    with pytest.raises(RejectedError):
        letters.add([bad])
    # Somebody has skipped them. The rest is good, and its share is its own.
    letters.restart(written=0)
    letters.add([{"records": 500, "dead": 10, "reasons": {"x": 10}}])
    assert letters.written == 10
