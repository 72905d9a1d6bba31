"""REST where it reaches the key that is there, else the record itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from seamark.connect.model import Connector
from seamark.core.offsets import Offset
from seamark.core.refs import ConnectorType
from seamark.errors import RefusedError
from seamark.kafka.model import HeldRecord
from seamark.offsets.codec.codec import encode_key, encode_rest_key
from seamark.offsets.model import CompletedOffsets, CurrentOffset, WriteRoute
from seamark.offsets.write.action import choose_route as choose_any_route

TWO = {"table": "public.orders", "protocol": "1"}
OFFSET = {"incrementing": 5}


def connector(kind=ConnectorType.SOURCE):
    return Connector("orders", "game", kind, {}, None)


def choose_route(owner, found, offsets, *, has_rest=True, notes=()):
    """The step. What has no record where tasks look gets one of the REST spelling."""

    def complete(all_held):
        made = tuple(
            one
            if one.records
            else replace(one, records=(HeldRecord("made", 1, encode_rest_key("orders", one.partition)),))
            for one in all_held
        )
        return CompletedOffsets(made, notes)

    route = choose_any_route(owner, found, offsets, has_rest=has_rest, complete=complete)
    assert route.notes == (notes if route.step.route is WriteRoute.TOPIC else ())
    return route.step


def held(*keys, partition=TWO, topics=("connect-offsets",), ambiguity="", is_misplaced=False):
    records = tuple(
        HeldRecord(topic, 3, key, b'{"incrementing":9}') for topic in topics for key in keys if key is not None
    )
    return CurrentOffset(partition, {"incrementing": 9}, records, ambiguity, is_misplaced)


REST_KEY = encode_rest_key("orders", TWO)
OTHER_KEY = next(
    key for key in (encode_key("orders", TWO), encode_key("orders", dict(reversed(TWO.items())))) if key != REST_KEY
)


def test_rest_writes_over_its_own_spelling():
    step = choose_route(connector(), [held(REST_KEY)], [Offset(TWO, OFFSET)])
    assert (step.route, step.records) == (WriteRoute.REST, ())


def test_rest_writes_what_nobody_has_written_yet():
    assert choose_route(connector(), [held(None)], [Offset(TWO, OFFSET)]).route is WriteRoute.REST


def test_another_spelling_is_written_over_where_it_lies():
    step = choose_route(connector(), [held(OTHER_KEY)], [Offset(TWO, OFFSET)])
    assert step.route is WriteRoute.TOPIC
    assert step.records == (HeldRecord("connect-offsets", 3, OTHER_KEY, b'{"incrementing":5}'),)


def test_of_two_topics_the_one_that_tasks_read_comes_last():
    found = held(OTHER_KEY, topics=("own", "connect-offsets"))
    step = choose_route(connector(), [found], [Offset(TWO, None)])
    assert [(record.topic, record.value) for record in step.records] == [("connect-offsets", None), ("own", None)]


def test_rest_does_not_write_beside_a_record_that_strayed():
    step = choose_route(connector(), [held(REST_KEY, is_misplaced=True)], [Offset(TWO, OFFSET)])
    assert step.route is WriteRoute.TOPIC
    assert [(record.partition, record.key) for record in step.records] == [(3, REST_KEY)]


def test_two_spellings_are_both_written_and_the_one_that_counts_last():
    step = choose_route(connector(), [held(OTHER_KEY, REST_KEY)], [Offset(TWO, OFFSET)])
    assert [record.key for record in step.records] == [REST_KEY, OTHER_KEY]


def test_what_no_task_spells_so_is_neither_written_nor_in_the_way():
    spaced = REST_KEY.replace(b",{", b", {")
    assert choose_route(connector(), [held(REST_KEY, spaced)], [Offset(TWO, OFFSET)]).route is WriteRoute.REST
    step = choose_route(connector(), [held(OTHER_KEY, spaced)], [Offset(TWO, OFFSET)])
    assert [record.key for record in step.records] == [OTHER_KEY]


def test_records_that_differ_are_refused():
    with pytest.raises(RefusedError, match="can't determine which record"):
        choose_route(connector(), [held(REST_KEY, ambiguity="two differ")], [Offset(TWO, OFFSET)])


def test_where_one_needs_the_topic_one_that_has_no_record_goes_there_too():
    new = CurrentOffset({"table": "new"}, None)
    step = choose_route(
        connector(), [held(OTHER_KEY), new], [Offset(TWO, OFFSET), Offset({"table": "new"}, OFFSET)], notes=("new",)
    )
    assert [record.topic for record in step.records] == ["connect-offsets", "made"]
    assert [record.value for record in step.records] == [b'{"incrementing":5}'] * 2


def test_workers_that_take_no_offsets_get_them_in_the_topic():
    step = choose_route(connector(), [held(REST_KEY)], [Offset(TWO, OFFSET)], has_rest=False)
    assert step.route is WriteRoute.TOPIC
    assert step.records == (HeldRecord("connect-offsets", 3, REST_KEY, b'{"incrementing":5}'),)


def test_a_sink_of_workers_that_take_no_offsets_gets_them_committed():
    wanted = [Offset({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 4})]
    step = choose_route(connector(ConnectorType.SINK), [held(None)], wanted, has_rest=False)
    assert (step.route, step.records) == (WriteRoute.GROUP, ())


def test_a_sink_has_no_keys():
    step = choose_route(connector(ConnectorType.SINK), [held(None)], [Offset({"kafka_topic": "t"}, OFFSET)])
    assert step.route is WriteRoute.REST
