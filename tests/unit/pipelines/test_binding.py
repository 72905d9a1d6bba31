"""Whether the keys of an upsert are bound to partitions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from seamark.errors import RefusedError, UsageError
from seamark.kafka_sink.routing import Partitioner, hash_key, probe_samples
from seamark.pipelines.binding import Binding, check_bindable, check_growth, find_binding
from seamark.tables.definition import LandColumn, Landing, Mode

BY_KEY = Landing(
    "orders",
    topic="orders",
    table="orders",
    columns=(LandColumn("id", "text", "key"), LandColumn("version", "bigint")),
    mode=Mode.UPSERT,
    key=("id",),
)
BY_VALUE = replace(BY_KEY, columns=(LandColumn("id", "text"), LandColumn("version", "bigint")))


def sample(rule, *, partitions, count=60, before=None):
    """Keys where a rule puts them; the first half of them among fewer partitions."""
    for number in range(count):
        key = f"key-{number}".encode()
        among = before if before and number < count // 2 else partitions
        yield hash_key(key, rule=rule) % among, key


def probe(rule, *, partitions=6, **more):
    return probe_samples(sample(rule, partitions=partitions, **more), partitions=partitions)


def test_key_of_the_value_is_bound_by_one_partition_only():
    check_bindable(BY_VALUE, 1)
    check_bindable(BY_KEY, 6)
    check_bindable(replace(BY_VALUE, order=("version",)), 6)
    check_bindable(replace(BY_VALUE, mode=Mode.APPEND, key=()), 6)
    # The partition is part of the key.
    columns = (*BY_VALUE.columns, LandColumn("part", "int", "kafka.partition"))
    check_bindable(replace(BY_VALUE, columns=columns, key=("id", "part")), 6)
    for landing in (BY_VALUE, replace(BY_VALUE, order=("kafka.offset",))):
        with pytest.raises(RefusedError, match="records of one key may be in several partitions") as error:
            check_bindable(landing, 6)
        assert "orders has 6 partitions, and to.key is not taken from the record key" in error.value.cause
        assert "order: [updated_at]" in error.value.hint


@pytest.mark.parametrize("rule", [Partitioner.MURMUR2, Partitioner.CRC32])
def test_partitioner_is_told_from_samples(rule):
    assert find_binding(BY_KEY, probe(rule), is_first=True) == Binding(rule, 6)


def test_one_partition_needs_no_partitioner():
    assert find_binding(BY_VALUE, probe_samples([(0, None)], partitions=1), is_first=True) == Binding(None, 1)


def test_few_keys_are_taken_for_what_they_fit():
    assert find_binding(BY_KEY, probe_samples([], partitions=6), is_first=True) == Binding(Partitioner.MURMUR2, 6)
    # Where crc32 puts it and murmur2 does not.
    key = next(
        key
        for number in range(100)
        if hash_key(key := str(number).encode(), rule=Partitioner.CRC32) % 6
        != hash_key(key, rule=Partitioner.MURMUR2) % 6
    )
    found = probe_samples([(hash_key(key, rule=Partitioner.CRC32) % 6, key)], partitions=6)
    assert find_binding(BY_KEY, found, is_first=True) == Binding(Partitioner.CRC32, 6)


@pytest.mark.parametrize(
    ("found", "cause"),
    [
        (probe_samples([(1, None)], partitions=6), "the records of orders have no key"),
        (probe(Partitioner.MURMUR2, before=3), "were increased from 3 to 6"),
        (
            probe_samples([(number % 6, b"key-%d" % number) for number in range(60)], partitions=6),
            "the partitioner is unknown",
        ),
    ],
)
def test_keys_anywhere_are_refused(found, cause):
    with pytest.raises(RefusedError) as error:
        find_binding(BY_KEY, found, is_first=True)
    assert cause in error.value.cause


def test_topic_that_has_grown_long_ago_goes_on():
    assert find_binding(BY_KEY, probe(Partitioner.MURMUR2, before=3), is_first=False) == Binding(Partitioner.MURMUR2, 6)


def test_growth_to_a_multiple_goes_on():
    check_growth(BY_KEY, 6, 12)
    check_growth(BY_KEY, 1, 8)
    with pytest.raises(RefusedError) as error:
        check_growth(BY_KEY, 6, 8)
    assert "from 6 to 8, which isn't a multiple of 6" in error.value.cause


def test_binding_goes_to_tasks_as_json():
    binding = Binding(Partitioner.MURMUR2, 12, before=6, grown_at={0: 100, 5: 7})
    assert Binding.from_dict(binding.to_dict()) == binding
    assert Binding.from_dict(Binding(None, 1).to_dict()) == Binding(None, 1)
    with pytest.raises(UsageError):
        Binding.from_dict({**binding.to_dict(), "rule": "any"})
