"""The checkers of the copy's soak can fail: each thing that may go wrong with a record is seen. Needs no server."""

from __future__ import annotations

from dataclasses import replace

import pytest

from seamark.copies.plan.progress import AbortedRecords
from seamark.kafka_sink.routing import Partitioner, Routing
from tests.spark.copies.copy_records import Source, compare, compare_debris
from tests.spark.kafka_side import Found

ROUTING = Routing(Partitioner.PARTITION, 4, 2)


def record(number, partition, offset):
    headers = (("n", str(number).encode()),)
    return Found(partition, offset=offset, key=None, value=b"v", headers=headers, timestamp_ms=number + 1)


SOURCE = [record(number, number % 4, number // 4) for number in range(8)]
# As the copy has them: by source partition and offset, one behind the other.
TARGET = [
    replace(one, partition=one.partition % 2, offset=place)
    for half in (0, 1)
    for place, one in enumerate(sorted((r for r in SOURCE if r.partition % 2 == half), key=lambda r: r.partition))
]


def wrong(target):
    source = Source.read(SOURCE, rows=8)
    return {name: count for name, count in compare(source, target, routing=ROUTING).items() if count}


def test_right_copy_has_nothing_wrong():
    assert wrong(TARGET) == {}


@pytest.mark.parametrize(
    ("target", "found"),
    [
        (TARGET[1:], {"lost": 1}),
        ([*TARGET, TARGET[-1]], {"doubled": 1, "reordered": 1}),
        ([TARGET[1], TARGET[0], *TARGET[2:]], {"reordered": 1}),
        ([replace(TARGET[0], timestamp_ms=99), *TARGET[1:]], {"changed": 1}),
        ([replace(TARGET[0], headers=(*TARGET[0].headers, ("x", None))), *TARGET[1:]], {"changed": 1}),
        ([replace(TARGET[0], value=b"w"), *TARGET[1:]], {"changed": 1}),
        ([replace(TARGET[0], partition=1), *TARGET[1:]], {"misplaced": 1}),
    ],
)
def test_wrong_copy_is_told(target, found):
    assert wrong(target) == found


def test_debris_is_what_others_see_beyond_the_copy():
    aborted = [record(0, 0, offset) for offset in (10, 11, 12)]
    listed = (AbortedRecords(0, 10, 13),)
    assert compare_debris(listed, TARGET, TARGET + aborted) == (3, 0)
    # One that is not listed, and one that is listed and belongs to the copy.
    assert compare_debris((AbortedRecords(0, 10, 11),), TARGET, TARGET + aborted) == (2, 1)
    assert compare_debris((AbortedRecords(0, 3, 13),), TARGET, TARGET + aborted)[1] > 0
