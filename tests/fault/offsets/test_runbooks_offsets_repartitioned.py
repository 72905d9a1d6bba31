"""docs/runbooks/offsets-topic-repartitioned.md, from the accident to the recovery, on a stack of its own."""

from __future__ import annotations

import shlex

import pytest
from confluent_kafka.admin import NewPartitions, NewTopic

from seamark.devstack import StackSpec, start_stack
from seamark.devstack.process import wait_until
from seamark.kafka.partitioner import choose_partition
from seamark.offsets.codec.codec import encode_key
from tests.fault.runbook_stage import PATIENCE_SECONDS, RunbookStage
from tests.integration.offset_tools import run_connect_offsets
from tests.integration.runbook import Runbook
from tests.integration.waits import await_topic

PAGE = "offsets-topic-repartitioned.md"
TOPIC = "connect-offsets"
pytestmark = [pytest.mark.recovery, pytest.mark.timeout(1200)]


@pytest.fixture
def stage(tmp_path):
    with start_stack(StackSpec(brokers=1, workers=1), name="offsets-grown") as stack:
        stage = RunbookStage(stack, tmp_path)
        stage.run("init", "--yes")
        yield stage
        stage.close()


def grow(stage):
    """The accident: more partitions, so many that the source's key belongs elsewhere. Gives its old and new one."""
    key = encode_key("log-purchase", {"filename": str(stage.folder / "purchase.txt")})
    count = stage.count_partitions(TOPIC)
    old = choose_partition(key, partitions=count)
    grown = next(more for more in range(count + 1, 100) if choose_partition(key, partitions=more) != old)
    stage.admin.create_partitions([NewPartitions(TOPIC, grown)])[TOPIC].result(30)
    return old, choose_partition(key, partitions=grown)


def recreate(stage, book):
    """Step 4 of the page: what it does in a shell."""
    partitions = stage.count_partitions(TOPIC)
    (block,) = book.read_blocks("sh")
    export, delete, create, load = (shlex.split(line) for line in block.splitlines())
    assert (delete[0], create[0]) == ("kafka-topics.sh", "kafka-topics.sh")
    assert ("--delete" in delete, "--create" in create, create[-1]) == (True, True, "cleanup.policy=compact")
    stage.kill_worker()
    try:
        assert export[0] == "connect-offsets"
        code, _, said = run_connect_offsets(*export[1:])
        assert code == 0, said
        stage.delete_topic(TOPIC)
        wait_until(lambda: TOPIC not in stage.list_topics(), f"{TOPIC} was gone", seconds=PATIENCE_SECONDS)
        new = NewTopic(TOPIC, partitions, 1, config={"cleanup.policy": "compact"})
        stage.admin.create_topics([new])[TOPIC].result(30)
        await_topic(stage.admin, TOPIC, partitions)
        # A worker that was killed is in its group until its session is over.
        wait_until(
            lambda: run_connect_offsets(*load[1:])[0] == 0, "the offsets were imported", seconds=PATIENCE_SECONDS
        )
    finally:
        stage.restart_worker()
    stage.await_running("log-purchase")


def test_the_source_goes_on_at_the_right_row_after_the_mend(stage, monkeypatch):
    # The import keeps its journal where the stage has its own.
    monkeypatch.setenv("XDG_STATE_HOME", stage.environ["XDG_STATE_HOME"])
    stage.write_rows(10)
    stage.create("log-purchase", stage.build_source())
    stage.create("lake", stage.build_sink())
    stage.await_delivered()
    stage.await_stored("log-purchase", 10)
    # What the sink has not committed when its worker ends it delivers again.
    stage.await_committed("lake", 10)

    old, new = grow(stage)
    # A worker that runs does not look for new partitions until its metadata is old; one that starts does.
    stage.restart_worker()
    stage.await_running("log-purchase")
    stage.write_rows(10)
    stage.await_delivered()
    stage.await_stored("log-purchase", 20)
    stage.await_committed("lake", 20)

    names = {"/data": stage.folder, "partition 4": f"partition {old}", "on 0": f"on {new}"}
    names |= {"connect-offsets-4": f"{TOPIC}-{old}", "connect-offsets-0": f"{TOPIC}-{new}"}
    names |= {"/etc/kafka/connect-distributed.properties": stage.endpoints["game"].worker_config}
    names |= {"offsets.json": stage.folder / "offsets.json"}
    book = Runbook(PAGE, names=names, environ=stage.environ, folder=stage.folder)
    book.run("doctor")
    book.run("offsets show")
    book.run("offsets export")
    book.run("offsets repair --all --dry-run", code=5)
    book.run("offsets repair --all --prefer newest")
    recreate(stage, book)
    book.run("offsets show")
    assert "misplaced" not in book.run("doctor").text
    book.finish()

    stage.restart_worker()
    stage.await_running("log-purchase")
    stage.await_running("lake")
    stage.write_rows(3)
    stage.await_delivered()
    rows = stage.read_rows()
    assert len(rows) == 23
    assert stage.count_topic() == dict.fromkeys(rows, 1)
    assert stage.count_sink() == dict.fromkeys(rows, 1)
