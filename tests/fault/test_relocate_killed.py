"""kill -9 in the middle of a change of offsets topics; then `journal resume`: moved, running, no line read twice."""

from __future__ import annotations

import pytest

from seamark.devstack.wait import wait_until

OWN = "offsets.storage.topic"
# stop 0 · prove 1 · make the topic 2 · carry 3 · verify 4 · config 5 · resume 6
POINTS = (
    "after-perform:0",
    "after-intent:2",
    "after-intent:3",
    "after-perform:3",
    "after-outcome:4",
    "after-perform:5",
    "after-perform:6",
)


@pytest.mark.parametrize("point", POINTS)
def test_killed_relocation_is_finished_by_resume_and_reads_no_line_again(kafka_rig, count_records, point):
    rig = kafka_rig
    _await_end(rig)
    # A task that a neighbour's rebalance starts again before its first flush reads its lines again: that is Connect's.
    before = count_records(rig.name)
    topic = f"{rig.name}-offsets"
    code, _, err = rig.seamark(
        "offsets", "relocate", rig.name, "--topic", topic, "--wait", "0s", "--yes", failpoint=f"{point}:kill"
    )
    assert code == -9, (code, err)
    change = rig.changes()[0]
    assert change["state"] == "open", change
    code, _, err = rig.seamark("journal", "resume", change["change"], "--yes")
    assert code == 0, err
    assert rig.changes()[0]["state"] == "done"
    assert rig.config()[OWN] == topic
    wait_until(rig.runs, f"{rig.name} ran again", seconds=90)
    with rig.input.open("a") as file:
        file.write("three\n")
    wait_until(lambda: count_records(rig.name) > before, "the third line was there", seconds=90)
    _await_end(rig)
    assert count_records(rig.name) == before + 1


def _await_end(rig):
    """The position of the whole file is stored."""

    def is_there():
        found = rig.read(f"/connectors/{rig.name}/offsets")["offsets"]
        return [one["offset"] for one in found] == [{"position": rig.input.stat().st_size}]

    wait_until(is_there, f"{rig.name} stood at its end", seconds=90, every_seconds=0.3)
