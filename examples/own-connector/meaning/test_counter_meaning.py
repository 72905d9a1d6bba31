"""A meaning is a plain class: its test needs no server."""

from counter_meaning import CounterMeaning

from seamark.core.offsets import Order
from seamark.offsets.semantics.semantics import Harm

MEANING = CounterMeaning("example.counter.CounterSourceConnector", {"topic": "counted", "limit": "100"})
HERE = {"counter": "counted"}


def test_what_the_connector_writes_is_fine():
    assert MEANING.check(HERE, {"count": 41}) == ()
    assert MEANING.check(HERE, None) == ()


def test_what_the_connector_would_refuse_is_an_error():
    for partition, offset in [
        ({"counter": "other"}, {"count": 1}),
        ({"count": "counted"}, {"count": 1}),
        (HERE, {"count": -1}),
        (HERE, {"count": "41"}),
    ]:
        assert [found.severity for found in MEANING.check(partition, offset)] == ["error"]


def test_positions_have_an_order_and_a_distance():
    assert MEANING.compare({"count": 41}, {"count": 42}) is Order.BEFORE
    assert MEANING.compare(None, {"count": 0}) is Order.EQUAL
    assert MEANING.build_distance(HERE, {"count": 41}, {"count": 50}).count.count == 9
    assert MEANING.build_distance(HERE, {"count": 41}, None).count.count == 59
    assert MEANING.describe(HERE, {"count": 41}) == ("counter counted", "counted to 41")


def test_what_it_does_not_say_it_inherits():
    assert MEANING.explain_rewind().harm is Harm.DUPLICATES
