"""Merges into the files of buckets, against a dictionary: whatever comes, in whatever order, the newest record wins."""

from __future__ import annotations

import random
import zlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seamark.tables.delta import buckets as bucket_module
from seamark.tables.delta.buckets import HASH, Bucket, BucketIndex, build_index, parse_bucket_name
from seamark.tables.delta.location import TableLocation
from seamark.tables.delta.merge import PARTITION, BucketMerger, MergeRules
from seamark.tables.model import DELETED, OFFSET, RECORD_MILLIS

SCHEMA = pa.schema([("id", pa.int64()), ("area", pa.string()), ("words", pa.string()), ("version", pa.int64())])


def build_rules(**more):
    return MergeRules(
        SCHEMA,
        **{
            "key": ("id",),
            "terms": None,
            "keeps_time": False,
            "now": 1_000_000,
            "tombstone_seconds": 100,
            **more,
        },
    )


def build_changes(records):
    """Records are dicts with the columns of the table, and partition, offset, deleted and millis."""
    names = {
        **{name: SCHEMA.field(name).type for name in SCHEMA.names},
        HASH: pa.int32(),
        PARTITION: pa.int32(),
        OFFSET: pa.int64(),
        DELETED: pa.bool_(),
        RECORD_MILLIS: pa.int64(),
    }
    return pa.table({name: pa.array([one[name] for one in records], kind) for name, kind in names.items()})


def build_record(number, *, words="", area="", version=0, partition=0, offset=0, deleted=False, millis=0):
    return {
        "id": number,
        "area": area,
        "words": None if deleted else words,
        "version": version,
        HASH: zlib.crc32(f"{number}/{area}".encode()) & 0x7FFF_FFFF,
        PARTITION: partition,
        OFFSET: offset,
        DELETED: deleted,
        RECORD_MILLIS: millis,
    }


class Table:
    """A table of files, as a driver keeps it."""

    def __init__(self, folder):
        self.place = TableLocation(str(folder))
        self.index = BucketIndex(0)
        self.refused = []
        self.expired = 0

    def merge(self, rules, records, *, bits=0):
        wide = self.index.list_buckets(bits=bits)
        files = {file.bucket: file for file in self.index.files}
        kept = {file.path: file.size for file in self.index.files}
        by_bucket = {}
        for one in records:
            by_bucket.setdefault(wide[one[HASH] & (len(wide) - 1)], []).append(one)
        for bucket, found in by_bucket.items():
            merged = BucketMerger(self.place, rules).merge(bucket, files.get(bucket), build_changes(found))
            for file in merged.removed:
                del kept[file.path]
            kept |= {file.path: file.size for file in merged.files}
            self.expired += merged.expired
            for file in merged.files:
                assert parse_bucket_name(file.path, size=0).rows == file.rows
            if merged.refused is not None:
                self.refused += merged.refused.column("id").to_pylist()
        self.index = build_index(self.index.version + 1, kept.items(), table="events")

    def read(self, *names):
        found = []
        for file in self.index.files:
            rows = pq.read_table(f"{self.place.path}/{file.path}")
            for one in rows.to_pylist():
                assert one[HASH] & ((1 << file.bucket.bits) - 1) == file.bucket.number
            found += zip(*(rows.column(name).to_pylist() for name in names), strict=True)
        return sorted(found)


@pytest.fixture
def table(tmp_path):
    return Table(tmp_path)


def test_the_last_record_of_a_key_is_its_row(table):
    rules = build_rules()
    table.merge(rules, [build_record(1, words="a", offset=0), build_record(1, words="b", offset=1)])
    table.merge(rules, [build_record(2, words="c", offset=2), build_record(1, words="d", offset=3)])
    assert table.read("id", "words") == [(1, "d"), (2, "c")]


def test_a_delete_without_a_row_writes_nothing(table):
    rules = build_rules()
    table.merge(rules, [build_record(1, words="a")])
    before = table.index.files
    table.merge(rules, [build_record(2, deleted=True, offset=1)])
    assert table.index.files == before


def test_a_bucket_without_rows_has_no_file(table):
    rules = build_rules()
    table.merge(rules, [build_record(1, words="a")])
    table.merge(rules, [build_record(1, deleted=True, offset=1)])
    assert table.index.files == ()


def test_keys_of_two_columns_are_not_mixed_up(table):
    rules = build_rules(key=("area", "words"))
    table.merge(rules, [build_record(1, area="a", words="bc"), build_record(2, area="ab", words="c", offset=1)])
    assert table.read("id") == [(1,), (2,)]


@pytest.mark.parametrize("is_ordered", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_random_changes_give_the_newest_rows(table, seed, is_ordered):
    # So small that buckets are split all the time.
    rules = build_rules(terms=("version",) if is_ordered else None, bucket_bytes=2000)
    chance, expected, offset = random.Random(seed), {}, 0
    for _ in range(30):
        records = []
        for _ in range(chance.randrange(1, 60)):
            number, partition = chance.randrange(200), chance.randrange(3) if is_ordered else 0
            version = chance.randrange(50)
            is_deleted = chance.random() < 0.2
            records.append(
                build_record(
                    number,
                    words=f"{offset}" * chance.randrange(1, 30),
                    version=version,
                    partition=partition,
                    offset=offset,
                    deleted=is_deleted,
                )
            )
            order = (version, partition, offset) if is_ordered else (offset,)
            if number not in expected or expected[number][0] <= order:
                expected[number] = (order, None if is_deleted else records[-1]["words"])
            offset += 1
        chance.shuffle(records)
        table.merge(rules, records, bits=chance.randrange(3))
        alive = sorted((number, words) for number, (_, words) in expected.items() if words is not None)
        assert table.read("id", "words") == alive
    assert len(table.index.files) >= 4


def test_a_record_older_than_purged_tombstones_is_refused(table):
    table.merge(build_rules(terms=("version",)), [build_record(1, version=5, words="a")])
    table.merge(build_rules(terms=("version",)), [build_record(1, version=7, deleted=True, offset=1)])
    table.merge(build_rules(terms=("version",)), [build_record(1, version=6, words="late", offset=2)])
    assert table.read("id") == []
    later = build_rules(terms=("version",), now=1_000_000 + 101_000)
    table.merge(later, [build_record(2, version=9, words="b", offset=3)])
    table.merge(later, [build_record(1, version=6, words="too late", offset=4)])
    table.merge(later, [build_record(1, version=8, words="new", offset=5)])
    assert table.read("id", "words") == [(1, "new"), (2, "b")]
    assert table.refused == [1]


def test_rows_expire_by_the_time_of_their_last_record(table):
    rules = build_rules(keeps_time=True)
    table.merge(rules, [build_record(number, words="a", millis=1000 + number, offset=number) for number in range(4)])
    assert [file.oldest for file in table.index.files] == [1000]
    table.merge(build_rules(keeps_time=True, expire_before=1002), [build_record(0, words="b", millis=2000, offset=9)])
    assert table.read("id", "words") == [(0, "b"), (2, "a"), (3, "a")]
    assert table.expired == 1


def test_a_row_is_never_older_than_it_was(table):
    rules = build_rules(keeps_time=True)
    table.merge(rules, [build_record(1, words="a", millis=2000)])
    table.merge(rules, [build_record(1, words="replayed", millis=1000, offset=1)])
    assert table.read("words", RECORD_MILLIS) == [("replayed", 2000)]


def test_files_from_before_a_column_have_nulls_in_it(table):
    small = pa.schema([one for one in SCHEMA if one.name != "version"])
    table.merge(MergeRules(small, ("id",), None, keeps_time=False, now=1, tombstone_seconds=1), [build_record(1)])
    table.merge(build_rules(), [build_record(2, version=3, offset=1)])
    assert dict(table.read("id", "version")) == {1: None, 2: 3}


@pytest.mark.parametrize(
    "name",
    ["part-1.parquet", "bucket-3-9-1-0-r-" + "0" * 32 + ".parquet", "bucket-99-1-1-0-r-" + "0" * 32 + ".parquet"],
)
def test_other_names_are_no_bucket(name):
    assert parse_bucket_name(name, size=1) is None


def test_two_files_for_the_same_keys_are_refused():
    names = [
        bucket_module.build_bucket_name(Bucket(bits, 1), rows=1, oldest=0, has_tombstones=False) for bits in (1, 3)
    ]
    with pytest.raises(Exception, match="two files for the same keys"):
        build_index(1, [(name, 1) for name in names], table="events")
