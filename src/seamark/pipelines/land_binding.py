"""The check of every record of an upsert without an order: its key must belong in its partition."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from seamark.kafka_sink.placing import build_placer
from seamark.kafka_sink.routing import Routing
from seamark.pipelines.binding import Binding, build_misplaced
from seamark.pipelines.land_frame import KEY, PARTITION
from seamark.pipelines.landing import Landing
from seamark.tables.ledger_entry import OFFSET


def check_bound(
    batches: Iterator[pa.RecordBatch], landing: Landing, binding: Binding, *, partition: int
) -> Iterator[pa.RecordBatch]:
    """Pass on the batches of a partition.

    Raises:
        RefusedError: The key of a record belongs in another partition.
    """
    for batch in batches:
        wrong = _find_wrong(batch, binding, partition)
        if pc.any(wrong).as_py():
            offset = batch.column(OFFSET).filter(wrong)[0].as_py()
            raise build_misplaced(landing, partition=partition, offset=offset, binding=binding)
        yield batch


def _find_wrong(batch: pa.RecordBatch, binding: Binding, partition: int) -> pa.Array:
    rule = binding.rule
    if rule is None:
        return pa.repeat(pa.scalar(False), batch.num_rows)
    keys, sources = batch.column(KEY), batch.column(PARTITION)

    def is_elsewhere(count: int) -> pa.Array:
        place = build_placer(Routing(rule, binding.partitions, targets=count))
        return pc.not_equal(place(keys, sources), pa.scalar(partition, pa.int32()))

    wrong = is_elsewhere(binding.partitions)
    if (grown_at := binding.grown_at.get(partition)) is not None:
        is_former = pc.less(batch.column(OFFSET), pa.scalar(grown_at, pa.int64()))
        wrong = pc.and_(wrong, pc.or_(pc.invert(is_former), is_elsewhere(binding.before)))
    return wrong
