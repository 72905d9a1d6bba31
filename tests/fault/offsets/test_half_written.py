"""kill -9 between two records of one write of offsets, on Connect 3.5.2; then `journal resume`, and the undo."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from seamark.devstack.process import wait_until
from seamark.offsets.stores.topic import build_home
from tests.fault.offsets.older import PATIENCE_SECONDS, Moved

CLUSTER = "connect-3-5-2"
# Beside the one of its file: files that it read in former times.
OTHERS = 4


class Several(Moved):
    """A source that holds offsets of several files."""

    def create(self):
        super().create()
        topic = self.rig.stack.connect[CLUSTER].offsets_topic
        producer = Producer({"bootstrap.servers": self.rig.stack.kafka.bootstrap_servers, "acks": "all"})
        home = build_home(len(producer.list_topics(topic, timeout=30).topics[topic].partitions))
        for number in range(OTHERS):
            key = f'["{self.rig.name}",{{"filename":"/former/{number}"}}]'.encode()
            producer.produce(topic, key=key, value=b'{"position":%d}' % number, partition=home(key))
        assert producer.flush(60) == 0
        assert len(self.read()) == OTHERS + 1


@pytest.mark.parametrize("record", [1, OTHERS])
def test_a_write_killed_between_two_records_is_written_again(stack, tmp_path, count_records, record):
    moved = Several(stack, tmp_path, cluster=CLUSTER, count_records=count_records)
    rig = moved.rig
    try:
        moved.create()
        before = sorted(moved.read())
        rig.env["SEAMARK_KILL_AT_RECORD"] = str(record)
        forget = ("offsets", "reset", moved.owner, "--progress-timeout", "0s", "--yes")
        code, _, err = rig.run_unhindered("tests.fault.offsets.half_child", *forget, timeout=300)
        assert code == -9, (code, err)
        # So many are forgotten, and the rest is not.
        assert len(moved.read()) == OTHERS + 1 - record
        # The newest: one that a rebalance hindered did nothing.
        change, *_ = rig.changes()
        code, _, err = rig.resume(change["change"])
        assert code == 0, err
        wait_until(rig.runs, f"{rig.name} ran again", seconds=PATIENCE_SECONDS)
        # It begins at its beginning: both lines once more, and not one former file is left.
        moved.await_end(2)
        writes = [
            entry["body"]
            for entry in rig.entries(change["change"])["entries"]
            if entry["kind"] == "intent" and entry["body"]["step"] == 3
        ]
        # Twice, and once more for each resume that a rebalance hindered.
        assert len(writes) >= 2
        held = [{key: one[key] for key in ("before", "after", "extra")} for one in writes]
        assert all(one == held[0] for one in held)
        code, _, err = rig.run_unhindered("seamark.cli", "journal", "undo", change["change"], "--yes", timeout=300)
        assert code == 0, err
        wait_until(lambda: sorted(moved.read()) == before, "the former files are held again", seconds=PATIENCE_SECONDS)
    finally:
        moved.close()
