"""Values of topic configs, as the brokers spell them."""

import pytest

from seamark.kafka.model import normalize_value


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("compact, delete", "compact,delete"),
        ("TRUE", "true"),
        (" 1000 ", "1000"),
        ("0010", "10"),
        ("-1", "-1"),
        ("0.50", "0.5"),
        ("1.0", "1.0"),
        ("CreateTime", "CreateTime"),
        ("", ""),
        ("0:1,1:2", "0:1,1:2"),
        ("1_000", "1_000"),
        ("1.2.3", "1.2.3"),
    ],
)
def test_values_are_spelled_as_the_brokers_do(written, told):
    assert normalize_value(written) == told
    assert normalize_value(told) == told
