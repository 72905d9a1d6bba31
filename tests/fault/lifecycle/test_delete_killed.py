"""kill -9 in a deletion with offsets and in a fresh create, three times each; then `journal resume` and `journal undo`.

After each undo the connector has its config and its state, and every record of its offsets the same bytes.
"""

from __future__ import annotations

import json

import pytest

from seamark.devstack.process import wait_until
from tests.fault.rig import SETTLE_SECONDS, is_hindered
from tests.integration.offset_rig import read_raw
from tests.integration.offset_tools import Brokers
from tests.integration.waits import TRIES

pytestmark = pytest.mark.timeout(900)

TIMES = 3
# stop 0 · prove 1 · no others 2 · write 3 · (restore 4) · verify 5 · delete 6
DELETE_POINTS = (
    "after-open:0",
    "after-perform:0",
    "after-outcome:1",
    "after-intent:3",
    "after-perform:3",
    "after-outcome:3",
    "after-outcome:5",
    "after-intent:6",
    "after-perform:6",
    "before-close:0",
)
# create 0 · prove 1 · no others 2 · write 3 · verify 4 · run 5
FRESH_POINTS = (
    "after-perform:0",
    "after-outcome:2",
    "after-intent:3",
    "after-perform:3",
    "after-outcome:4",
    "after-perform:5",
)


@pytest.mark.parametrize("point", DELETE_POINTS)
def test_killed_deletion_is_finished_by_resume_and_undone_to_the_byte(kafka_rig, point):
    rig = kafka_rig
    for _ in range(TIMES):
        await_end(rig)
        before, config = read_records(rig), rig.config()
        assert before
        change = run_killed(rig, point, "connectors", "delete", rig.name, "--with-offsets", "--yes")
        assert rig.name not in rig.read("/connectors")
        assert read_records(rig) == {}
        undo(rig, change)
        assert (rig.config(), rig.state()) == (config, "RUNNING")
        # The file has no new line: a task that starts from the restored offset stores nothing.
        assert read_records(rig) == before


@pytest.mark.parametrize("point", FRESH_POINTS)
def test_killed_fresh_create_is_finished_by_resume_and_undone_to_the_byte(kafka_rig, count_records, point):
    rig = kafka_rig
    await_end(rig)
    config = {key: value for key, value in rig.config().items() if key != "name"}
    file = rig.folder / "new.json"
    file.write_text(json.dumps({"name": rig.name, "config": config}))
    rig.remove(rig.name)
    before = read_records(rig)
    assert before
    for _ in range(TIMES):
        lines = count_records(rig.name)
        change = run_killed(
            rig, point, "connectors", "create", "-f", str(file), "--cluster", rig.cluster, "--fresh", "--yes"
        )
        wait_until(rig.runs, f"{rig.name} ran", seconds=SETTLE_SECONDS)
        # It reads its file from the beginning.
        wait_until(lambda lines=lines: count_records(rig.name) >= lines + 2, "both lines came", seconds=SETTLE_SECONDS)
        undo(rig, change)
        assert rig.name not in rig.read("/connectors")
        assert read_records(rig) == before
    rig.create()


def run_killed(rig, point, *words):
    """Run a command that is killed, again where a rebalance hindered it, and finish it. Return its change."""
    for _ in range(TRIES):
        code, out, err = rig.seamark(*words, failpoint=f"{point}:kill")
        if not is_hindered(code, out, err):
            break
        rig.finish()
    assert code == -9, (code, err)
    change = rig.changes()[0]
    assert change["state"] == "open", change
    code, _, err = rig.resume(change["change"])
    assert code == 0, err
    assert rig.changes()[0]["state"] == "done"
    return change["change"]


def undo(rig, change):
    code, _, err = rig.repeat("journal", "undo", change, "--yes")
    assert code == 0, err


def read_records(rig):
    """The bytes of each key of the connector; a tombstone counts as none."""
    endpoint = rig.stack.connect[rig.cluster]
    found = read_raw(Brokers(rig.stack.kafka.bootstrap_servers), endpoint.offsets_topic, rig.name)
    return {place: value for place, value in found.items() if value is not None}


def await_end(rig):
    """The position of the whole file is stored."""

    def is_there():
        found = rig.read(f"/connectors/{rig.name}/offsets")["offsets"]
        return [one["offset"] for one in found] == [{"position": rig.input.stat().st_size}]

    wait_until(rig.runs, f"{rig.name} ran", seconds=SETTLE_SECONDS)
    wait_until(is_there, f"{rig.name} stood at its end", seconds=SETTLE_SECONDS, every_seconds=0.3)
