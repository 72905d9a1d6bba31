"""librdkafka's murmur2 is ours, which is Java's."""

from __future__ import annotations

import ctypes

from hypothesis import given
from hypothesis import strategies as st

from seamark.kafka import partitioner as native_partitioner
from seamark.kafka.partitioner import build_partitioner, choose_partition


@given(st.binary(max_size=200), st.integers(1, 1000))
def test_both_choose_the_same(key, partitions):
    assert native_partitioner._find_native() is not None
    assert build_partitioner(partitions)(key) == choose_partition(key, partitions=partitions)


def test_without_the_library_python_does_it(monkeypatch):
    def refuse(path):
        raise OSError(path)

    monkeypatch.setattr(ctypes, "PyDLL", refuse)
    assert native_partitioner._find_native() is None
    assert build_partitioner(25)(b'["pg",{"server":"dbserver1"}]') == 16
