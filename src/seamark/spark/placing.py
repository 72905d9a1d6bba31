"""The target partition of many records at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as sf

from seamark.kafka.native_partitioner import build_partitioner
from seamark.pipelines.routing import Routing, Rule

Placer = Callable[[Iterable[bytes | None], Iterable[int]], list[int]]
"""From the keys and source partitions of records to their target partitions."""


def build_placer(routing: Routing) -> Placer:
    """What `Routing.choose` says, by librdkafka's own function where there is one."""
    targets = routing.targets
    if routing.rule is not Rule.MURMUR2:
        return lambda keys, sources: [
            routing.choose(key, source=source) for key, source in zip(keys, sources, strict=True)
        ]
    choose = build_partitioner(targets)
    return lambda keys, sources: [
        source % targets if key is None else choose(key) for key, source in zip(keys, sources, strict=True)
    ]


def build_target_column(key: Column, source: Column, *, routing: Routing) -> Column:
    """The target partition as a column, for a shuffle by it."""

    def place(keys: pa.Array, sources: pa.Array) -> pa.Array:
        return pa.array(build_placer(routing)(keys.to_pylist(), sources.to_pylist()), pa.int32())

    return sf.arrow_udf(place, "int")(key, source)  # type: ignore[no-any-return]
