"""Offsets out of a standalone worker's file, and out of a consumer group."""

from __future__ import annotations

import pytest

from seamark.core.readings import Reading
from seamark.errors import NotFoundError, RefusedError, SeamarkError, UnreachableError
from seamark.kafka.groups import Committed, GroupOffsets
from seamark.offsets.codec.java_map import write_java_map
from seamark.offsets.model import OffsetAnomaly
from seamark.offsets.stores.file import FileStore
from seamark.offsets.stores.stores import GroupStore

FS = b'["fs",{"filename":"/in"}]'


def write(path, *entries):
    path.write_bytes(write_java_map(entries))
    return FileStore(path)


def test_a_file_is_read_with_its_bytes(tmp_path):
    store = write(tmp_path / "o", (FS, b'{"position":8}'), (b'["x",{"k":0}]', None), (b'["y",{"k":0}]', b'{"v":1}'))
    reading = store.read()
    assert [(found.key.connector, found.offset) for found in reading.offsets] == [
        ("fs", {"position": 8}),
        ("y", {"v": 1}),
    ]
    assert [found.key.connector for found in reading.forgotten] == ["x"]
    found = reading.offsets[0].evidence
    assert (found.key, found.value, found.partition, found.record_offset) == (FS, b'{"position":8}', None, None)
    assert found.timestamp_ms == pytest.approx((tmp_path / "o").stat().st_mtime * 1000, abs=2)
    assert found.place == f"file {tmp_path / 'o'}"
    assert reading.findings == ()
    assert [found.key.connector for found in store.read(["y"]).offsets] == ["y"]


def test_variants_in_a_file_are_named(tmp_path):
    spaced = b'["fs", {"filename": "/in"}]'
    reading = write(tmp_path / "o", (spaced, b'{"position":4}'), (FS, b'{"position":8}')).read()
    assert reading.offsets[0].offset == {"position": 8}
    assert OffsetAnomaly.DUPLICATE_ENCODING in {found.anomaly for found in reading.findings}


def test_a_file_that_was_cut_off_is_refused(tmp_path):
    # Java takes it for an empty one and begins anew.
    path = tmp_path / "o"
    path.write_bytes(write_java_map([(FS, b'{"position":8}')])[:-3])
    with pytest.raises(RefusedError):
        FileStore(path).read()


def test_a_missing_file_says_what_that_means(tmp_path):
    with pytest.raises(NotFoundError) as caught:
        FileStore(tmp_path / "none").read()
    assert "starts without offsets" in caught.value.cause
    with pytest.raises(SeamarkError) as caught:
        FileStore(tmp_path).read()
    assert "can't be read" in caught.value.message


class FakeCoordinator:
    def __init__(self, answer):
        self.answer = answer

    def read_committed(self, groups, *, only_stable=False):
        assert only_stable
        if isinstance(self.answer, SeamarkError):
            return Reading(failures=dict.fromkeys(groups, self.answer))
        return Reading(tuple(GroupOffsets(name, self.answer) for name in groups))


def test_a_group_is_read_in_the_words_of_connect():
    answer = {("t", 1): Committed(7), ("t", 0): Committed(5)}
    reading = GroupStore(FakeCoordinator(answer), "connect-lake", owner="lake").read(["lake"])
    assert reading.store == "group connect-lake"
    assert [(dict(found.key.partition), found.offset) for found in reading.offsets] == [
        ({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 5}),
        ({"kafka_topic": "t", "kafka_partition": 1}, {"kafka_offset": 7}),
    ]
    assert reading.offsets[0].evidence.key is None
    assert GroupStore(FakeCoordinator(answer), "connect-lake", owner="lake").read(["other"]).offsets == ()


def test_a_group_that_is_not_there_holds_nothing_and_other_trouble_is_raised():
    assert GroupStore(FakeCoordinator(NotFoundError("none")), "g", owner="lake").read().offsets == ()
    with pytest.raises(UnreachableError):
        GroupStore(FakeCoordinator(UnreachableError("later")), "g", owner="lake").read()
