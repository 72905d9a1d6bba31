"""What a copy is read with: what it rests on can't be set, in whatever spelling; speed can. Needs no Spark."""

from __future__ import annotations

import pytest

from seamark.errors import UsageError
from seamark.spark.settings import build_source_options

SERVERS = {"kafka.bootstrap.servers": "nowhere:1"}


def test_speed_may_be_set_and_the_rest_is_ours():
    found = build_source_options({**SERVERS, "kafka.max.poll.records": "7", "kafkaConsumer.pollTimeoutMs": "9"})
    assert found == {
        "kafka.bootstrap.servers": "nowhere:1",
        "kafka.max.poll.records": "7",
        "kafkaConsumer.pollTimeoutMs": "9",
        "kafka.fetch.max.wait.ms": "20",
        "kafka.isolation.level": "read_committed",
        "includeHeaders": "true",
        "failOnDataLoss": "true",
    }
    assert build_source_options(SERVERS)["kafka.max.poll.records"] == "20000"


@pytest.mark.parametrize("name", ["kafka.max.poll.records", "Kafka.Max.Poll.Records"])
def test_one_setting_in_two_spellings_is_one(name):
    found = build_source_options({**SERVERS, name: "7"})
    assert [value for key, value in found.items() if key.lower() == "kafka.max.poll.records"] == ["7"]


@pytest.mark.parametrize("name", ["kafka.isolation.level", "KAFKA.isolation.LEVEL"])
def test_uncommitted_records_are_not_copied(name):
    with pytest.raises(UsageError, match="read_uncommitted") as caught:
        build_source_options({**SERVERS, name: "read_uncommitted"})
    assert "aborted records" in caught.value.cause
    assert build_source_options({**SERVERS, name: "read_committed"}) == build_source_options(SERVERS)


@pytest.mark.parametrize("name", ["minPartitions", "minpartitions", "maxRecordsPerPartition"])
def test_source_partition_is_not_split_among_tasks(name):
    with pytest.raises(UsageError, match=name) as caught:
        build_source_options({**SERVERS, name: "24"})
    assert "one task" in caught.value.cause


@pytest.mark.parametrize(
    "name",
    ["startingTimestamp", "endingOffsetsByTimestamp", "startingOffsets", "subscribe", "failOnDataLoss", "pollTimeout"],
)
def test_other_options_are_refused_by_name(name):
    # Spark takes a timestamp before the offsets, and passes over what it does not know.
    with pytest.raises(UsageError, match=name) as caught:
        build_source_options({**SERVERS, name: "x"})
    assert "kafka.*" in caught.value.hint
