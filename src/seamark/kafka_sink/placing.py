"""The target partition of many records at once."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as sf

from seamark.kafka.native_partitioner import build_partitioner
from seamark.kafka_sink.many_hashes import hash_many
from seamark.kafka_sink.routing import Routing, Rule

Placer = Callable[[pa.Array, pa.Array], pa.Array]
"""From the keys and source partitions of records to their target partitions."""


def build_placer(routing: Routing) -> Placer:
    """What `Routing.choose` says: by Arrow's own arithmetic or librdkafka's function where they can."""

    def place(keys: pa.Array, sources: pa.Array) -> pa.Array:
        if routing.rule is Rule.PARTITION:
            return _reduce(sources, routing.targets)
        numbers = hash_many(keys) if routing.rule is Rule.MURMUR2 else None
        if numbers is None:
            return _place_singly(keys, sources, routing)
        return pc.coalesce(_reduce(numbers, routing.targets), _reduce(sources, routing.targets))

    return place


def build_target_column(key: Column, source: Column, *, routing: Routing) -> Column:
    """The target partition as a column, for a shuffle by it."""
    return sf.arrow_udf(build_placer(routing), "int")(key, source)  # type: ignore[no-any-return]


def _place_singly(keys: pa.Array, sources: pa.Array, routing: Routing) -> pa.Array:
    pairs = zip(keys.to_pylist(), sources.to_pylist(), strict=True)
    if routing.rule is not Rule.MURMUR2:
        return pa.array([routing.choose(key, source=source) for key, source in pairs], pa.int32())
    choose, targets = build_partitioner(routing.targets), routing.targets
    return pa.array([source % targets if key is None else choose(key) for key, source in pairs], pa.int32())


def _reduce(numbers: pa.Array, targets: int) -> pa.Array:
    """The remainder, which Arrow has no function for."""
    count = pa.scalar(targets, numbers.type)
    return pc.subtract(numbers, pc.multiply(pc.divide(numbers, count), count)).cast(pa.int32())
