"""Offsets out of a topic: grouped by meaning, with every spelling, copy and oddity named."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.kafka.partitioner import choose_partition
from seamark.offsets.codec.codec import decode_key, decode_value, encode_key
from seamark.offsets.codec.verdicts import KeyVerdict
from seamark.offsets.model import OffsetAnomaly
from seamark.offsets.stores.topic import KeyFilter, TopicStore
from tests.fakes.offsets.dirty import CASES
from tests.unit.offsets.listing import Listing, foretell_listing
from tests.unit.offsets.scans import FakeScan

FS = ("fs", {"filename": "/in"})
COMPACT = b'["fs",{"filename":"/in"}]'
SPACED = b'["fs", {"filename": "/in"}]'


def read(scan, owners=None, **options):
    return TopicStore(scan, **options).read(owners)


def kinds(reading):
    return sorted(finding.anomaly for finding in reading.findings)


def other_partition(key, partitions=5):
    return (choose_partition(key, partitions=partitions) + 1) % partitions


def test_an_offset_carries_its_evidence():
    scan = FakeScan().put(FS, {"position": 4}).put(FS, {"position": 8})
    reading = read(scan)
    (stored,) = reading.offsets
    assert (stored.key.connector, stored.key.partition, stored.offset) == ("fs", {"filename": "/in"}, {"position": 8})
    found = stored.evidence
    assert (found.store, found.key, found.value) == ("topic connect-offsets", COMPACT, b'{"position":8}')
    assert (found.partition, found.record_offset) == (choose_partition(COMPACT, partitions=5), 1)
    assert found.timestamp_ms == 1_700_000_001_000
    assert found.place == f"connect-offsets-{found.partition}@1"
    assert (reading.findings, reading.scanned, stored.is_certain) == ((), 2, True)


def test_a_tombstone_is_a_forgotten_partition_and_no_offset():
    reading = read(FakeScan().put(FS, {"position": 4}).put(FS, None))
    assert reading.offsets == ()
    assert [found.key.partition for found in reading.forgotten] == [{"filename": "/in"}]
    assert reading.findings == ()


def test_only_the_owners_asked_for_are_given():
    scan = FakeScan().put(FS, {"position": 4}).put(("other", {"filename": "/in"}), {"position": 1})
    assert {found.key.connector for found in read(scan).offsets} == {"fs", "other"}
    assert [found.key.connector for found in read(scan, ["fs"]).offsets] == ["fs"]
    assert read(scan, ["nobody"]).offsets == ()


def test_the_spelling_that_connect_writes_beats_a_newer_one_with_spaces():
    # Live, 1.4: an external write with spaces had no effect at all.
    reading = read(FakeScan().put(COMPACT, {"position": 8}).put(SPACED, {"position": 4}))
    (stored,) = reading.offsets
    assert (stored.offset, stored.is_certain) == ({"position": 8}, True)
    assert [found.key for found in stored.others] == [SPACED]
    assert kinds(reading) == [OffsetAnomaly.DUPLICATE_ENCODING, OffsetAnomaly.UNREADABLE_KEY]
    (variants,) = [found for found in reading.findings if found.anomaly is OffsetAnomaly.DUPLICATE_ENCODING]
    assert {found.key for found in variants.evidence} == {COMPACT, SPACED}
    assert "only one of them" in variants.message


def test_two_orders_of_fields_leave_it_open_which_one_a_task_finds():
    # 1.3: Map.of gives another order after each start of a worker.
    first, second = b'["s3",{"bucket":"b","objectKey":"k"}]', b'["s3",{"objectKey":"k","bucket":"b"}]'
    reading = read(FakeScan().put(first, {"recordCount": 9}).put(second, {"recordCount": 3}))
    (stored,) = reading.offsets
    assert (stored.offset, stored.is_certain) == ({"recordCount": 3}, False)
    assert stored.evidence.key == second
    assert kinds(reading) == [OffsetAnomaly.DUPLICATE_ENCODING]
    assert "depends on its plugin" in reading.findings[0].message


def test_two_orders_that_say_the_same_are_certain():
    first, second = b'["s3",{"bucket":"b","objectKey":"k"}]', b'["s3",{"objectKey":"k","bucket":"b"}]'
    (stored,) = read(FakeScan().put(first, {"recordCount": 3}).put(second, {"recordCount": 3})).offsets
    assert stored.is_certain


def test_a_spelling_that_stands_alone_and_that_no_task_finds_is_named():
    reading = read(FakeScan().put(SPACED, {"position": 4}))
    assert kinds(reading) == [OffsetAnomaly.UNREADABLE_KEY]
    assert reading.offsets[0].offset == {"position": 4}


def test_types_make_different_partitions():
    keys = [b'["c",{"n":1}]', b'["c",{"n":1.0}]', b'["c",{"n":"1"}]', b'["c",{"n":true}]']
    scan = FakeScan()
    for number, key in enumerate(keys):
        scan.put(key, {"v": number})
    reading = read(scan)
    assert len(reading.offsets) == 4
    assert reading.findings == ()


def test_a_stray_beside_the_home_is_named_and_nothing_is_certain():
    # Live, 1.5: the stale stray won in 3 of 3 restarts.
    stray = other_partition(COMPACT)
    reading = read(FakeScan().put(COMPACT, {"position": 4}, partition=stray).put(COMPACT, {"position": 6}))
    (stored,) = reading.offsets
    assert (stored.offset, stored.is_certain) == ({"position": 6}, False)
    (finding,) = reading.findings
    assert finding.anomaly is OffsetAnomaly.MISPLACED
    assert finding.evidence[0].partition == stray
    assert f"is on partition {stray}" in finding.message


def test_a_newer_stray_does_not_hide_what_lies_at_home():
    stray = other_partition(COMPACT)
    reading = read(FakeScan().put(COMPACT, {"position": 6}).put(COMPACT, {"position": 4}, partition=stray))
    assert reading.offsets[0].offset == {"position": 6}
    assert not reading.offsets[0].is_certain


def test_a_stray_that_stands_alone_is_what_a_task_finds_and_is_named():
    reading = read(FakeScan().put(COMPACT, {"position": 4}, partition=other_partition(COMPACT)))
    assert (reading.offsets[0].offset, reading.offsets[0].is_certain) == ({"position": 4}, True)
    assert kinds(reading) == [OffsetAnomaly.MISPLACED]


def test_with_a_partitioner_of_its_own_nothing_is_a_stray():
    scan = FakeScan().put(COMPACT, {"position": 4}, partition=other_partition(COMPACT))
    assert read(scan, knows_partitioner=False).findings == ()


def test_a_tombstone_on_a_wrong_partition_masks():
    # Live, 1.5: GET gave null though the home partition held a value.
    stray = other_partition(COMPACT)
    reading = read(FakeScan().put(COMPACT, {"position": 6}).put(COMPACT, None, partition=stray))
    (stored,) = reading.offsets
    assert (stored.offset, stored.is_certain) == ({"position": 6}, False)
    assert kinds(reading) == [OffsetAnomaly.HIDDEN_BY_TOMBSTONE, OffsetAnomaly.MISPLACED]


def test_a_tombstone_under_another_spelling_masks():
    # 1.4: one tombstone of any variant hides the partition from GET while the others live on.
    rest, task = b'["c",{"filename":"q","extra":1}]', b'["c",{"extra":1,"filename":"q"}]'
    reading = read(FakeScan().put(task, {"position": 11}).put(rest, None))
    (stored,) = reading.offsets
    assert (stored.offset, stored.is_certain) == ({"position": 11}, False)
    assert kinds(reading) == [OffsetAnomaly.DUPLICATE_ENCODING, OffsetAnomaly.HIDDEN_BY_TOMBSTONE]


def test_more_partitions_make_strays():
    # 1.5: growing the topic re-homes keys.
    scan = FakeScan(partitions=2)
    for number in range(20):
        scan.put(("c", {"n": number}), {"v": 1})
    assert read(scan).findings == ()
    scan.partitions = 5
    assert set(kinds(read(scan))) == {OffsetAnomaly.MISPLACED}


def test_an_open_transaction_is_named():
    reading = read(FakeScan(held_back={2: (10, 12)}).put(FS, {"position": 4}))
    (finding,) = reading.findings
    assert finding.anomaly is OffsetAnomaly.OPEN_TRANSACTION
    assert "connect-offsets-2" in finding.message
    assert "10 to 11" in finding.message


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_nothing_dirty_is_dropped(case):
    reading = read(FakeScan().put(case.key, case.value))
    stored = (*reading.offsets, *reading.forgotten)
    decoded = decode_key(case.key)
    if decoded.verdict is not KeyVerdict.GOOD:
        assert stored == ()
        assert kinds(reading) == [OffsetAnomaly.BAD_KEY]
        assert str(decoded.verdict) in reading.findings[0].message
        assert reading.findings[0].evidence[0].key == case.key
        return
    (one,) = stored
    assert (one.evidence.key, one.evidence.value) == (case.key, case.value)
    value = decode_value(case.value)
    if foretell_listing(decoded, value) is Listing.OFFSET:
        assert one.offset == value.offset
    if value.verdict not in ("good", "tombstone"):
        assert OffsetAnomaly.BAD_VALUE in kinds(reading)


NAMES = st.text(min_size=1, max_size=12)


@given(name=NAMES, other=NAMES, spaces=st.booleans(), ascii_only=st.booleans())
def test_the_filter_never_loses_a_key_of_the_owner(name, other, spaces, ascii_only):
    accept = KeyFilter([name])
    partition = {"a": 1}
    separators = (", ", ": ") if spaces else (",", ":")
    spelled = json.dumps([name, partition], separators=separators, ensure_ascii=ascii_only)
    for key in (encode_key(name, partition), spelled.encode("utf-8", "surrogatepass"), f" {spelled}".encode("utf-16")):
        assert accept(key)
    if other != name and other.isascii() and other.isprintable() and not set('"\\') & set(other):
        assert not accept(encode_key(other, partition))


def test_history_has_what_was_overwritten():
    scan = FakeScan().put(FS, {"position": 4}).put(("x", {}), {"v": 1}).put(FS, {"position": 8}).put(FS, None)
    found = list(TopicStore(scan).read_history(["fs"]))
    assert [evidence.offset for _, evidence in found] == [{"position": 4}, {"position": 8}, None]
    assert [evidence.is_tombstone for _, evidence in found] == [False, False, True]
