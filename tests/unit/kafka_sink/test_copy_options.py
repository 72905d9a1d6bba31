"""The options of a copy's sink: what the plan decides can't be given. Needs no Spark."""

from __future__ import annotations

import pytest

from seamark.errors import UsageError
from seamark.kafka_sink.options import read_copy_options

SERVERS = {"kafka.bootstrap.servers": "nowhere:1", "topic": "orders"}


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("ordered", "true", "one transaction"),
        ("ordered", "false", "one transaction"),
        ("transaction.records", "5", "one transaction"),
        ("transaction.bytes", "5", "one transaction"),
        ("repeat", "skip", "always compared"),
        ("job", "mine", "after the plan ID"),
    ],
)
def test_what_a_copy_decides_itself_is_refused_with_the_reason(name, value, why):
    with pytest.raises(UsageError, match=f"option {name}") as caught:
        read_copy_options({**SERVERS, name: value})
    assert why in caught.value.cause
    assert caught.value.hint == "remove the option"


def test_the_rest_is_as_for_the_sink():
    found = read_copy_options({**SERVERS, "kept.bytes": "9", "control.topic": "c"})
    assert (found.topic, found.control_topic, found.limits) == ("orders", "c", {"kept_bytes": 9})
    assert (found.is_ordered, found.is_checked) == (False, True)
    with pytest.raises(UsageError, match="unknown option topics"):
        read_copy_options({**SERVERS, "topics": "x"})
