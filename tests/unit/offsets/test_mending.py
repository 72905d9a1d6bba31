"""What the records of a partition will be when they are mended."""

from __future__ import annotations

from dataclasses import replace

from seamark.model.raw_record import RawRecord
from seamark.offsets.grouping import build_home, build_reading
from seamark.offsets.mending import NEWEST, Mended, Undecided, build_mended

PARTITIONS = 5
ONE = b'["c",{"a":"1","b":"2"}]'
TURNED = b'["c",{"b":"2","a":"1"}]'
SPACED = b'["c", {"a": "1", "b": "2"}]'
home = build_home(PARTITIONS)


def mend(*records, take="", partitions=PARTITIONS):
    """`records` are key, value, how far from home; the later are newer."""
    raw = [
        RawRecord((home(key) + off) % PARTITIONS, number, 1000 + number, key, value)
        for number, (key, value, off) in enumerate(records)
    ]
    reading = build_reading(raw, store="topic t", home=build_home(partitions))
    return list(build_mended(replace(reading, partitions=partitions), take=take))


def written(found):
    assert isinstance(found, Mended)
    return {(record.partition, record.key): record.value for record in found.records}


def test_nothing_is_odd_nothing_is_written():
    assert mend((ONE, b'{"p":1}', 0)) == []


def test_a_stray_goes_home():
    (found,) = mend((ONE, b'{"p":1}', 1))
    assert written(found) == {(home(ONE), ONE): b'{"p":1}', ((home(ONE) + 1) % PARTITIONS, ONE): None}
    assert [record.value is None for record in found.records] == [False, True]
    assert found.offset.offset == {"p": 1}


def test_a_stray_that_says_the_same_is_taken_away():
    (found,) = mend((ONE, b'{"p":1}', 0), (ONE, b'{"p":1}', 1))
    assert written(found) == {((home(ONE) + 1) % PARTITIONS, ONE): None}


def test_a_key_that_no_task_spells_is_taken_away_and_its_value_is_not_taken():
    (found,) = mend((ONE, b'{"p":1}', 0), (SPACED, b'{"p":9}', 0))
    assert written(found) == {(home(SPACED), SPACED): None}
    assert found.offset.offset == {"p": 1}


def test_where_no_task_reads_any_the_value_goes_where_rest_looks():
    (found,) = mend((SPACED, b'{"p":9}', 0), take=NEWEST)
    assert written(found)[home(SPACED), SPACED] is None
    assert [value for value in written(found).values() if value] == [b'{"p":9}']
    assert len(found.records) == 2


def test_variants_that_differ_need_somebody_to_say():
    records = ((ONE, b'{"p":1}', 0), (TURNED, b'{"p":2}', 0))
    (found,) = mend(*records)
    assert isinstance(found, Undecided)
    places = {one.offset["p"]: one.place for one in found.candidates}
    assert set(places) == {1, 2}
    (newest,) = mend(*records, take=NEWEST)
    assert written(newest) == {(home(ONE), ONE): b'{"p":2}'}
    (older,) = mend(*records, take=places[1])
    assert written(older) == {(home(TURNED), TURNED): b'{"p":1}'}
    assert mend(*records, take="t-0@99") == [found]


def test_what_nobody_can_read_is_never_taken():
    (found,) = mend((ONE, b"nonsense", 1), take=NEWEST)
    assert isinstance(found, Undecided)


def test_where_homes_are_not_known_nothing_is_taken_away():
    assert mend((ONE, b'{"p":1}', 1), partitions=None) == []
