"""The order of an upsert."""

from __future__ import annotations

import pytest

from seamark.errors import UsageError
from seamark.tables.model import OFFSET, RECORD_MILLIS, OrderKind, OrderTerm, build_terms

TYPES = {
    "n": "bigint",
    "d": "numeric(12, 2)",
    "f": "double precision",
    "t": "timestamptz",
    "p": "timestamp(3) with time zone",
    "q": "timestamp without time zone",
    "day": "date",
    "text": "text",
    "all": "bigint[]",
    "span": "interval",
}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("n", OrderKind.NUMBER),
        ("d", OrderKind.NUMBER),
        ("f", OrderKind.FLOAT),
        ("t", OrderKind.TIME),
        ("p", OrderKind.TIME),
        ("q", OrderKind.TIME),
        ("day", OrderKind.TIME),
    ],
)
def test_column_with_an_order_is_a_term(name, kind):
    assert build_terms([name], TYPES, pipeline="orders") == (OrderTerm(name, kind),)


def test_order_of_kafkas_own_fields():
    assert build_terms(["t", "kafka.timestamp"], TYPES, pipeline="orders")[1].column == RECORD_MILLIS
    assert build_terms(["kafka.offset"], TYPES, pipeline="orders")[0].column == OFFSET


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (["text"], "can't use column text of type text"),
        (["all"], "can't use column all"),
        (["span"], "can't use column span"),
        (["none"], "contains none, which is not a column"),
        (["kafka.partition"], "contains kafka.partition, which is not a column"),
        (["n", "n"], "has a duplicate name"),
        (["n", "kafka.offset"], "can't combine kafka.offset with other terms"),
    ],
)
def test_what_has_no_order_is_refused(order, message):
    with pytest.raises(UsageError, match=message):
        build_terms(order, TYPES, pipeline="orders")
