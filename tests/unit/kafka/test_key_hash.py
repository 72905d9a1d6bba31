"""Partitions as a Java producer chooses them: facts, section 8."""

from __future__ import annotations

import pytest

from seamark.kafka.partitioner import choose_partition, hash_murmur2


@pytest.mark.parametrize(
    ("key", "code", "of_25", "of_5"),
    [
        (b"", 275646681, 6, 1),
        (b"a", -1563381124, 24, 4),
        (b"abc", 479470107, 7, 2),
        (b'["fs",{"filename":"in.txt"}]', -476219376, 22, 2),
        (b'["pg",{"server":"dbserver1"}]', -2103552582, 16, 1),
        (b'["jdbc",{"protocol":"1","table":"public.orders"}]', -109884702, 21, 1),
        (b'["mm2",{"cluster":"src","partition":0,"topic":"t"}]', 1635241390, 15, 0),
        (b"\xff\x80\x00\x01\xfe", -173560464, 9, None),
        ("café".encode(), -1358007374, 24, 4),
    ],
)
def test_key_goes_where_java_puts_it(key, code, of_25, of_5):
    assert hash_murmur2(key) == code
    assert choose_partition(key, partitions=25) == of_25
    assert of_5 is None or choose_partition(key, partitions=5) == of_5


def test_one_partition_takes_all():
    assert choose_partition(b"a", partitions=1) == 0
