"""docs/runbooks/offsets-topic-repartitioned.md, from the accident to the recovery, on a stack of its own."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import NewPartitions

from seamark.devstack import StackSpec, start_stack
from seamark.model.key_hash import choose_partition
from seamark.offsets.codec import encode_key
from tests.fault.runbook_stage import RunbookStage
from tests.integration.runbook import Runbook

PAGE = "offsets-topic-repartitioned.md"
TOPIC = "connect-offsets"
pytestmark = pytest.mark.timeout(1200)


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


def test_the_source_goes_on_at_the_right_row_after_the_mend(stage):
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
    book = Runbook(PAGE, names=names, environ=stage.environ, folder=stage.folder)
    book.run("doctor")
    book.run("offsets show")
    book.run("offsets export")
    book.run("offsets mend --all --clean --dry-run", code=5)
    book.run("offsets mend --all --clean --take newest")
    book.run("offsets show")
    assert "stray" not in book.run("doctor").text
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
