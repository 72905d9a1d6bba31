"""kill -9 at every point of a change of offsets, three times each; then `journal resume`: moved once, and running."""

from __future__ import annotations

import pytest

from seamark.change.failpoint import POINTS
from seamark.devstack.wait import wait_until
from tests.fault.moving import ACTING, STEPS

STEP_POINTS = [point for point in POINTS if point not in ("after-open", "before-close", "after-close")]
LOOKS = ("before-intent", "after-outcome")
MATRIX = [
    f"{point}:{number}" for number in range(STEPS) for point in STEP_POINTS if number in ACTING or point in LOOKS
] + ["after-open:0", "before-close:0", "after-close:0"]
TIMES = 3


def test_matrix_has_every_point_of_every_step():
    assert len(MATRIX) == len(ACTING) * len(STEP_POINTS) + (STEPS - len(ACTING)) * len(LOOKS) + 3
    assert len(MATRIX) * TIMES >= 55


class Moved:
    """A file source of two lines: every rewind to its beginning writes both once more, and no other record comes."""

    def __init__(self, rig, count_records):
        self.rig = rig
        self._count_records = count_records
        self.lines = 2
        self.await_end()
        self.await_lines()

    def move(self, failpoint):
        return self.rig.run("tests.fault.moving", self.rig.name, str(self.rig.input), "0", failpoint=failpoint)

    def await_lines(self):
        wait_until(
            lambda: self._count_records(self.rig.name) >= self.lines,
            f"{self.rig.name} had {self.lines} records",
            seconds=60,
            every_seconds=0.3,
        )
        assert self._count_records(self.rig.name) == self.lines

    def await_end(self):
        """The position is at the end of the file again, and was flushed."""
        size = self.rig.input.stat().st_size
        wanted = [{"partition": {"filename": str(self.rig.input)}, "offset": {"position": size}}]

        def is_there():
            return self.rig.read(f"/connectors/{self.rig.name}/offsets")["offsets"] == wanted

        wait_until(is_there, f"{self.rig.name} stood at its end", seconds=60, every_seconds=0.3)


@pytest.fixture
def moved(kafka_rig, count_records):
    return Moved(kafka_rig, count_records)


@pytest.mark.parametrize("point", MATRIX)
def test_killed_move_is_finished_by_resume(moved, point):
    rig, killed = moved.rig, 0
    for _ in range(TIMES):
        code, _, err = moved.move(f"{point}:kill")
        assert code == -9, (code, err)
        killed += 1
        change = rig.changes()[0]
        if point.startswith("after-close"):
            assert change["state"] == "done", change
        else:
            assert change["state"] == "open", change
            code, _, err = rig.seamark("journal", "resume", change["change"], "--yes")
            assert code == 0, err
        assert rig.changes()[0]["state"] == "done"
        assert rig.state() == "RUNNING"
        # Read again exactly once: neither lost nor done twice.
        moved.lines += 2
        moved.await_lines()
        moved.await_end()
    assert killed == TIMES
