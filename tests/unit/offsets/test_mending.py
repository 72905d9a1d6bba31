"""What the records of a partition will be when they are mended."""

from __future__ import annotations

import pytest

from seamark.errors import RefusedError
from seamark.kafka.model import HeldRecord, RawRecord
from seamark.offsets.repair.rules import NEWEST, RepairRule, build_repaired, choose_record, is_anomalous, settle_rule
from seamark.offsets.stores.topic import build_home, build_reading

PARTITIONS = 5
PARTITION = {"a": "1", "b": "2"}
ONE = b'["c",{"a":"1","b":"2"}]'
TURNED = b'["c",{"b":"2","a":"1"}]'
SPACED = b'["c", {"a": "1", "b": "2"}]'
home = build_home(PARTITIONS)


def aside(key, off):
    return (home(key) + off) % PARTITIONS


def read(*records):
    """`records` are key, value, how far from home; the later are newer. Gives the one offset that they speak of."""
    raw = [
        RawRecord(aside(key, off), number, 1000 + number, key, value)
        for number, (key, value, off) in enumerate(records)
    ]
    reading = build_reading(raw, store="topic t", home=home)
    (stored,) = (*reading.offsets, *reading.forgotten)
    return stored


def mend(*records, rule, settled=False):
    held = [HeldRecord("t", aside(key, off), key, value) for key, value, off in records]
    return build_repaired(held, rule, topic="t", home=home, settled=settled)


def written(mended):
    return {(record.partition, record.key): record.value for record in mended}


def rule_of(key, off=0, *, said=False):
    return RepairRule(PARTITION, aside(key, off), key, said=said)


def test_a_single_record_at_home_is_not_odd():
    assert not is_anomalous(read((ONE, b'{"p":1}', 0)), home)
    assert is_anomalous(read((ONE, b'{"p":1}', 1)), home)
    assert is_anomalous(read((SPACED, b'{"p":1}', 0)), home)
    assert is_anomalous(read((ONE, b'{"p":1}', 0), (TURNED, b'{"p":1}', 0)), home)


def test_a_stray_says_what_is_at_home():
    found = mend((ONE, b'{"p":1}', 0), (ONE, b'{"p":9}', 1), rule=rule_of(ONE))
    assert written(found) == {(home(ONE), ONE): b'{"p":1}', (aside(ONE, 1), ONE): b'{"p":1}'}


def test_a_stray_is_at_home_too():
    found = mend((ONE, b'{"p":1}', 1), rule=rule_of(ONE, 1))
    assert written(found) == {(home(ONE), ONE): b'{"p":1}', (aside(ONE, 1), ONE): b'{"p":1}'}


def test_a_record_at_home_goes_before_one_that_nobody_named():
    records = ((ONE, b'{"p":2}', 0), (ONE, b'{"p":9}', 1))
    assert written(mend(*records, rule=rule_of(ONE, 1)))[home(ONE), ONE] == b'{"p":2}'
    assert written(mend(*records, rule=rule_of(ONE, 1, said=True)))[home(ONE), ONE] == b'{"p":9}'


def test_a_key_that_no_task_spells_stays_as_it_is_and_its_value_is_not_taken():
    records = ((ONE, b'{"p":1}', 0), (SPACED, b'{"p":9}', 0))
    assert written(mend(*records, rule=rule_of(ONE))) == {(home(ONE), ONE): b'{"p":1}'}


def test_where_no_task_reads_any_the_value_goes_where_rest_looks():
    (kept,) = mend((SPACED, b'{"p":9}', 0), rule=rule_of(SPACED))
    assert kept.key != SPACED
    assert (kept.value, kept.partition) == (b'{"p":9}', home(kept.key))
    settled = settle_rule(rule_of(SPACED), home)
    assert (settled.key, settled.where) == (kept.key, kept.partition)


def test_every_spelling_of_a_task_gets_the_value():
    records = ((ONE, b'{"p":1}', 0), (TURNED, b'{"p":2}', 0))
    both = mend(*records, rule=rule_of(TURNED))
    assert written(both) == {(home(ONE), ONE): b'{"p":2}', (home(TURNED), TURNED): b'{"p":2}'}


def test_a_look_afterwards_takes_what_is_at_home_also_where_that_is_nothing():
    settled = settle_rule(rule_of(ONE, 1, said=True), home)
    assert settled == rule_of(ONE)
    assert written(mend((ONE, b'{"p":9}', 0), rule=settled, settled=True)) == {(home(ONE), ONE): b'{"p":9}'}
    assert [record.value for record in mend(rule=settled, settled=True)] == [None]
    with pytest.raises(RefusedError, match="does not exist any more"):
        mend((ONE, b'{"p":9}', 0), rule=rule_of(TURNED))


def test_records_that_differ_need_somebody_to_say_which_counts():
    stored = read((ONE, b'{"p":1}', 0), (TURNED, b'{"p":2}', 0))
    assert choose_record(stored) is None
    assert choose_record(stored, "t-0@99") is None
    assert choose_record(stored, NEWEST).offset == {"p": 2}
    places = {one.offset["p"]: one.place for one in (stored.evidence, *stored.others)}
    assert choose_record(stored, places[1]).offset == {"p": 1}


def test_what_nobody_can_read_is_never_taken():
    assert choose_record(read((ONE, b"nonsense", 1)), NEWEST) is None
