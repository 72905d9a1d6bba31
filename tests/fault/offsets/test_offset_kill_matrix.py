"""kill -9 at every point of a change of offsets, three times each; then `journal resume`: moved once, and running."""

from __future__ import annotations

import json

import pytest

from seamark.changes.interruption import POINTS
from seamark.devstack.process import wait_until
from seamark.offsets.codec.codec import encode_key
from tests.fault.offsets.moving import ACTING, STEPS
from tests.fault.rig import SETTLE_SECONDS, is_hindered
from tests.integration.offset_tools import read_writes
from tests.integration.waits import TRIES

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
    """A file source of two lines: every rewind to its beginning writes both once more, and no other record comes.

    Only where a neighbour's rebalance ends its task before the flush, Connect itself reads both again. So the rewinds
    are counted where they are written, to the one; the lines come in pairs, and none is missing.
    """

    def __init__(self, rig, count_records):
        self.rig = rig
        self._count_records = count_records
        self.lines = self.rewinds = 0

    def move(self, failpoint):
        """Begin a move that is killed; again where a rebalance kept it from its point."""
        for _ in range(TRIES):
            self.await_end()
            self.await_lines(max(2, self.lines))
            self.rewinds = self.count_rewinds()
            wait_until(self.rig.runs, f"{self.rig.name} ran", seconds=SETTLE_SECONDS)
            ended = self.rig.run(
                "tests.fault.offsets.moving", self.rig.name, str(self.rig.input), "0", failpoint=f"{failpoint}:kill"
            )
            if not is_hindered(*ended):
                break
            self.rig.finish()
        return ended

    def check_moved_once(self):
        """Read again exactly once: neither lost nor done twice."""
        self.await_lines(self.lines + 2)
        self.await_end()
        assert self.count_rewinds() == self.rewinds + 1

    def await_lines(self, least):
        seen = []

        def are_there():
            # Of a pair the first may be seen alone.
            seen[:] = [self._count_records(self.rig.name)]
            return seen[0] >= least and seen[0] % 2 == 0

        wait_until(are_there, f"{self.rig.name} had {least} records", seconds=SETTLE_SECONDS, every_seconds=0.3)
        self.lines = seen[0]

    def count_rewinds(self):
        """How often its beginning was stored so far; a task only stores what lies behind it."""
        endpoint = self.rig.stack.connect[self.rig.cluster]
        key = encode_key(self.rig.name, {"filename": str(self.rig.input)})
        values = read_writes(self.rig.stack.kafka.bootstrap_servers, endpoint.offsets_topic, key)
        return sum(value is not None and json.loads(value) == {"position": 0} for value in values)

    def await_end(self):
        """The position is at the end of the file again, and was flushed."""
        size = self.rig.input.stat().st_size
        wanted = [{"partition": {"filename": str(self.rig.input)}, "offset": {"position": size}}]

        def is_there():
            return self.rig.read(f"/connectors/{self.rig.name}/offsets")["offsets"] == wanted

        wait_until(is_there, f"{self.rig.name} stood at its end", seconds=SETTLE_SECONDS, every_seconds=0.3)


@pytest.fixture
def moved(kafka_rig, count_records):
    return Moved(kafka_rig, count_records)


@pytest.mark.parametrize("point", MATRIX)
def test_killed_move_is_finished_by_resume(moved, point):
    rig, killed = moved.rig, 0
    for _ in range(TIMES):
        code, _, err = moved.move(point)
        assert code == -9, (code, err)
        killed += 1
        change = rig.changes()[0]
        if point.startswith("after-close"):
            assert change["state"] == "done", change
        else:
            assert change["state"] == "open", change
            code, _, err = rig.resume(change["change"])
            assert code == 0, err
        assert rig.changes()[0]["state"] == "done"
        assert rig.state() == "RUNNING"
        moved.check_moved_once()
    assert killed == TIMES
