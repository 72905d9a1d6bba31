"""kill -9 at every point of every step, three times each; then `journal resume`.

On the oldest Connect that can stop a connector. The newest has its own matrix, that of offsets, at the same time: there
each of the two has its own workers, and neither waits for the rebalances of the other.
"""

from __future__ import annotations

import pytest

from seamark.changes.interruption import POINTS
from tests.fault.guarded import STEPS
from tests.fault.rig import Rig

STEP_POINTS = [point for point in POINTS if point not in ("after-open", "before-close", "after-close")]
MATRIX = [f"{point}:{number}" for number in range(STEPS) for point in STEP_POINTS] + [
    "after-open:0",
    "before-close:0",
    "after-close:0",
]
TIMES = 3


def test_matrix_has_every_point_of_every_step():
    assert len(MATRIX) == STEPS * len(STEP_POINTS) + 3
    assert len(STEP_POINTS) >= 4
    assert len(MATRIX) * TIMES >= 45


@pytest.fixture
def old_rig(stack, tmp_path, journal_topics):
    """A connector that runs on the oldest Connect."""
    rig = Rig(stack, tmp_path, cluster="connect-3-5-2")
    rig.create()
    yield rig
    rig.delete()


@pytest.mark.parametrize("point", MATRIX)
def test_killed_change_is_finished_by_resume(old_rig, point):
    killed = 0
    for value in range(1, TIMES + 1):
        before = old_rig.config()
        code, _, err = old_rig.guarded(str(value), failpoint=f"{point}:kill")
        assert code == -9, (code, err)
        killed += 1
        change = old_rig.changes()[0]
        if point.startswith("after-close"):
            assert change["state"] == "done", change
        else:
            assert change["state"] == "open", change
            # Never in between: what stands there now is the one or the other, whole.
            assert old_rig.config() in (before, before | {"mark": str(value)})
            code, _, err = old_rig.resume(change["change"])
            assert code == 0, err
        assert old_rig.config() == before | {"mark": str(value)}
        assert old_rig.state() == "RUNNING"
        assert old_rig.changes()[0]["state"] == "done"
    assert killed == TIMES


def test_undo_after_a_kill_puts_the_config_back(old_rig):
    before = old_rig.config()
    code, _, _ = old_rig.guarded("9", failpoint="after-perform:1:kill")
    assert code == -9
    change = old_rig.changes()[0]["change"]
    assert old_rig.resume(change)[0] == 0
    assert old_rig.config() == before | {"mark": "9"}
    code, _, err = old_rig.seamark("journal", "undo", change, "--yes")
    assert code == 0, err
    assert old_rig.config() == before
    assert old_rig.state() == "RUNNING"
