"""The rows of a copy as its tasks see them. Needs pyspark and pyarrow, and no server."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.copies.run.spark_copy import HASH, SOURCE_OFFSET, SOURCE_PARTITION, TARGET, CopyPiece
from seamark.kafka_sink.inputs import SourceSpan
from seamark.kafka_sink.spark import build_piece


def build(origins):
    targets, sources, offsets, hashes = zip(*origins, strict=True) if origins else ((),) * 4
    columns = {
        "value": pa.array([b"v"] * len(origins), pa.binary()),
        TARGET: pa.array(targets, pa.int32()),
        SOURCE_PARTITION: pa.array(sources, pa.int32()),
        SOURCE_OFFSET: pa.array(offsets, pa.int64()),
        HASH: pa.array(hashes, pa.int64()),
    }
    return CopyPiece(build_piece(pa.RecordBatch.from_pydict(columns), "orders"))


ORIGINS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 99), st.integers(-(2**63), 2**63 - 1)), max_size=30
)


def list_origins(piece):
    return [
        (stretch.target, stretch.source, offset, hashed)
        for stretch in piece.stretches()
        for offset, hashed in zip(stretch.offsets, stretch.hashes, strict=True)
    ]


@given(ORIGINS, st.integers(0, 5))
def test_stretches_have_every_row_in_the_order_of_its_target(origins, begin):
    # A piece that was split lies in the middle of a batch.
    _, piece = build(origins).split(begin)
    found = list_origins(piece)
    for target in range(3):
        wanted = [origin for origin in origins[begin:] if origin[0] == target]
        assert [origin for origin in found if origin[0] == target] == wanted
    assert len(found) == len(origins[begin:])


@given(ORIGINS)
def test_spans_are_those_of_the_rows(origins):
    wanted = {}
    for target, source, offset, _ in origins:
        span = SourceSpan(source, target, 1, first=offset, last=offset)
        pair = (source, target)
        wanted[pair] = wanted[pair].join(span) if pair in wanted else span
    found = build(origins).spans()
    assert sorted(found, key=repr) == sorted(wanted.values(), key=repr)


@pytest.mark.parametrize("records", [0, 1, 2])
def test_piece_can_be_split(records):
    origins = [(0, 1, 5, 9), (1, 1, 6, 8)]
    first, rest = build(origins).split(records)
    assert [*list_origins(first), *list_origins(rest)] == origins
    assert (first.amount.records, rest.amount.records) == (records, 2 - records)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_headers_come_as_text(kind):
    texts = [None, '[{"key":"a","value":"AAH/"},{"key":"a"},{"key":"","value":""}]', "[]"]
    batch = pa.RecordBatch.from_pydict({"value": pa.array([b"v"] * 3), "headers": pa.array(texts, kind)})
    found = [headers for _, _, _, headers, _, _ in build_piece(batch, "orders").rows()]
    assert found == [None, [("a", b"\x00\x01\xff"), ("a", None), ("", b"")], []]
