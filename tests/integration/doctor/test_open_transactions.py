"""A transaction that hangs in an offsets topic is named by the doctor, with whoever began it and what ends it."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from seamark.core.readings import Severity
from seamark.kafka.model import OffsetSpec
from tests.fakes.connect import FILE_SOURCE
from tests.integration.offset_rig import OffsetRig
from tests.integration.waits import wait_for

CHECK = "kafka.transactions"
TIMEOUT_MS = 600_000


@pytest.fixture
def rig(stack, tmp_path):
    made = OffsetRig(stack, tmp_path)
    yield made
    made.close()


def examine(rig, topic):
    """What the doctor says of the transactions of one topic; the error where a neighbour's topic went meanwhile."""
    found = [one for one in rig.fleet.doctor.examine() if one.check == CHECK]
    assert found, "the check said nothing"
    if unexamined := [one for one in found if "not examined" in one.message]:
        return unexamined
    return [one for one in found if one.subject.startswith(f"{topic}-")]


def await_examined(rig, topic, places):
    """Once the doctor names these places: a worker that lags does not tell of the connector and its topic yet, and an
    abort is on its way to the partition for a while."""
    return wait_for(
        lambda: examine(rig, topic),
        lambda found: [one.subject for one in found] == places,
        f"the doctor to find transactions at {places}",
    )


def test_whoever_holds_readers_back_is_named(rig, tmp_path):
    topic = rig.brokers.make_topic(rig.name("own"), partitions=2)
    config = {"connector.class": FILE_SOURCE, "file": str(tmp_path / "in"), "topic": rig.name("out")}
    # Stopped: no task of it writes.
    rig.client.create_connector(rig.name("source"), {**config, "offsets.storage.topic": topic}, initial_state="STOPPED")
    rig.brokers.write(topic, (b'["x",{}]', b"{}"), partition=1)
    await_examined(rig, topic, [])
    settings = {"bootstrap.servers": rig.brokers.bootstrap, "transactional.id": rig.name("txn")}
    producer = Producer({**settings, "transaction.timeout.ms": TIMEOUT_MS})
    producer.init_transactions(60)
    producer.begin_transaction()
    try:
        for _ in range(3):
            producer.produce(topic, key=b'["x",{}]', value=b"{}", partition=1)
        assert producer.flush(60) == 0
        kafka = rig.fleet._world.kafka()
        spots = [(topic, 0), (topic, 1)]
        assert {
            spot: one.offset for spot, one in kafka.read_log_offsets(spots, at=OffsetSpec.STABLE).found.items()
        } == {
            (topic, 0): 0,
            (topic, 1): 1,
        }
        assert kafka.read_log_offsets(spots, at=OffsetSpec.LATEST).found[topic, 1].offset == 4
        (open_one,) = kafka.read_open_transactions(spots)
        assert (open_one.transactional_id, open_one.start_offset, open_one.state) == (rig.name("txn"), 1, "Ongoing")
        assert open_one.timeout_ms == TIMEOUT_MS

        (found,) = await_examined(rig, topic, [f"{topic}-1"])
        assert found.severity is Severity.INFO
        assert (
            f"transactional.id {rig.name('txn')}, producer id {open_one.producer_id}, from offset 1 on" in found.message
        )
        assert "(transaction.timeout.ms)" in found.fix
    finally:
        producer.abort_transaction(60)
    await_examined(rig, topic, [])
