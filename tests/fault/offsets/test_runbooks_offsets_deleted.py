"""docs/runbooks/offsets-topic-deleted.md, from the accident to the recovery, on a stack of its own."""

from __future__ import annotations

from itertools import count

import pytest

from seamark.devstack import StackSpec, start_stack
from seamark.devstack.process import wait_until
from seamark.kafka.partitioner import choose_partition
from seamark.offsets.codec.codec import encode_key
from tests.fault.runbook_stage import PATIENCE_SECONDS, RunbookStage
from tests.integration.runbook import Runbook

PAGE = "offsets-topic-deleted.md"
TOPIC = "connect-offsets"
PARTITIONS = 5
pytestmark = [pytest.mark.recovery, pytest.mark.timeout(1200)]


@pytest.fixture
def stage(tmp_path):
    with start_stack(StackSpec(brokers=1, workers=1), name="offsets-deleted") as stack:
        stage = RunbookStage(stack, make_folder(tmp_path))
        stage.run("init", "--yes")
        yield stage
        stage.close()


def make_folder(parent):
    """Where the key of log-purchase lies on partition 0: the topic that brokers make anew has no other.

    A source whose key lay on another one stores nothing any more until its worker starts again, as the page says.
    """
    for number in count():
        folder = parent / f"data{number}"
        key = encode_key("log-purchase", {"filename": str(folder / "purchase.txt")})
        if choose_partition(key, partitions=PARTITIONS) == 0:
            folder.mkdir()
            return folder
    raise AssertionError


def test_positions_come_back_from_the_topic_made_anew_and_the_export(stage):
    stage.write_rows(10)
    stage.write_rows(10, kind="guild")
    stage.create("log-purchase", stage.build_source())
    stage.create("log-guild", stage.build_source(kind="guild"))
    stage.create("lake", stage.build_sink("purchase,guild"))
    stage.await_delivered("purchase", "guild")
    stage.await_stored("log-purchase", 10)
    stage.await_stored("log-guild", 10)
    stage.run("offsets", "export", "--all", "--out", "nightly.json")
    # What the export does not know of the one that rests from now on.
    stage.write_rows(5, kind="guild")
    stage.await_delivered("purchase", "guild")
    stage.await_stored("log-guild", 15)

    stage.delete_topic(TOPIC)
    # The old one has five partitions, and is listed for a while yet: what is stored in it then is gone with it.
    wait_until(
        lambda: TOPIC in stage.list_topics() and stage.count_partitions(TOPIC) == 1,
        "the brokers made it anew",
        seconds=PATIENCE_SECONDS,
    )
    stage.write_rows(10)
    stage.await_delivered("purchase", "guild")
    stage.await_stored("log-purchase", 20)

    book = Runbook(
        PAGE,
        names={"/data": stage.folder},
        environ=stage.environ,
        folder=stage.folder,
    )
    book.run("doctor", code=1)
    book.run("connectors stop")
    book.run("offsets export")
    book.run("offsets diff nightly.json rescued.json")
    stage.kill_worker()
    stage.delete_topic(TOPIC)
    wait_until(lambda: TOPIC not in stage.list_topics(), f"{TOPIC} was gone", seconds=PATIENCE_SECONDS)
    stage.restart_worker()
    assert (stage.count_partitions(TOPIC), stage.read_policy(TOPIC)) == (PARTITIONS, "compact")
    for name in ("log-purchase", "log-guild", "lake"):
        # A worker that has just come up shows it UNASSIGNED for a moment.
        wait_until(
            lambda name=name: stage.find_states(name) == ("STOPPED",), f"{name} was stopped", seconds=PATIENCE_SECONDS
        )
    book.run("offsets import rescued.json")
    book.run("offsets import nightly.json")
    book.run("connectors resume")

    stage.write_rows(2)
    stage.write_rows(2, kind="guild")
    stage.await_delivered("purchase", "guild")
    stage.await_stored("log-purchase", 22)
    stage.await_stored("log-guild", 17)
    assert "\n  - " not in book.run("offsets diff nightly.json").text
    assert "connect.topics" not in book.run("doctor").text
    book.finish()
    compare(stage)


def compare(stage):
    """Every row is in its topic and in the sink's file once, those of the one that rests twice as the page says."""
    doubled = set(stage.read_rows("guild")[10:15])
    assert len(doubled) == 5
    for kind, wanted in (("purchase", 22), ("guild", 17)):
        rows, topic = stage.read_rows(kind), stage.count_topic(kind)
        assert len(rows) == wanted
        assert topic == {row: 2 if row in doubled else 1 for row in rows}
    everything = stage.count_topic("purchase") + stage.count_topic("guild")
    wait_until(lambda: stage.count_sink() == everything, "the sink had every record", seconds=PATIENCE_SECONDS)
    assert sum(everything.values()) == 22 + 17 + 5
