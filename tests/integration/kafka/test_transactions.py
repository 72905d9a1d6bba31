"""What the journal relies on of real brokers. tests/unit/kafka/test_memory_brokers.py holds the fake to the same."""

from __future__ import annotations

import secrets

import pytest

from seamark.kafka.topics import TopicAdmin, TopicSpec
from tests.fakes.kafka.transaction_suite import Kafka, TransactionSuite


@pytest.fixture
def kafka(stack):
    """Topics of this test's own, deleted after it."""
    config = {"bootstrap.servers": stack.kafka.bootstrap_servers}
    token = secrets.token_hex(4)
    created, appended = f"test-created-{token}", f"test-appended-{token}"
    types = {created: "CreateTime", appended: "LogAppendTime"}
    with TopicAdmin(config) as admin:
        admin.create_topics(
            [
                TopicSpec(topic, partitions=1, replication_factor=1, configs={"message.timestamp.type": kind})
                for topic, kind in types.items()
            ]
        )
        kafka = Kafka(config, created, appended, prefix=f"test.{token}")
        yield kafka
        kafka.close()
        admin.delete_topics([created, appended])


class TestTransactions(TransactionSuite):
    """The cases."""
