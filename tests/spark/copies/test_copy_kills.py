"""Copies on a real cluster whose executors and drivers are killed while they write: every record is there, once."""

from __future__ import annotations

import pytest

from tests.spark.copies.copy_soak import soak

ROWS = 200_000
RIGHT = {"lost": 0, "doubled": 0, "changed": 0, "misplaced": 0, "reordered": 0, "debris_wrong": 0, "not_done": 0}


def run(stack, folder, **keywords):
    folder.mkdir()
    stage, found = soak(stack, folder, rows=ROWS, **keywords)
    assert {name: found[name] for name in RIGHT} == RIGHT, found
    assert (found["copied"], found["violations"], found.get("failed_runs", 0)) == (ROWS, 0, 0), found
    return stage, found


@pytest.mark.parametrize("is_copied_back", [False, True], ids=["to-six", "to-six-and-back"])
def test_copies_whose_executors_and_driver_are_killed_lose_nothing(stack, tmp_path, is_copied_back):
    """12 to 6 partitions, which shuffles; and from there, with what the first has left behind, back to 12."""
    first, found = run(stack, tmp_path / "first", shape=(12, 6), faults={"kill_executor": 2, "kill_driver": 1}, seed=1)
    assert (found["executor_kills"], found["driver_kills"], found["runs"]) == (2, 1, 2)
    if is_copied_back:
        # Records were in the target that nobody had committed, each time. Whether they stay as debris is chance: a
        # Python process outlives its executor for a moment, and may commit.
        shape, faults = (6, 12), {"kill_executor": 1}
        second, found = run(stack, tmp_path / "second", shape=shape, faults=faults, source=first.target)
        assert (found["executor_kills"], found["runs"]) == (1, 1)
        second.remove()
    first.remove()
