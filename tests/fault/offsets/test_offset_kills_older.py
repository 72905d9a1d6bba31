"""kill -9 at every point of a move of offsets on Connect 3.5.2; then `journal resume`: moved once, and running."""

from __future__ import annotations

import os

import pytest

from tests.fault.offsets.older import ACTING, KINDS, LOOKS, MATRIX, STEP_POINTS, STEPS

pytestmark = pytest.mark.recovery

CLUSTER = "connect-3-5-2"


def test_matrix_has_every_point_of_every_step():
    assert len(MATRIX) == len(ACTING) * len(STEP_POINTS) + (STEPS - len(ACTING)) * len(LOOKS) + 3
    assert len(MATRIX) == 21


# A sink differs in its write alone; with the variable set it is tried at every point too.
SINKS = MATRIX if os.environ.get("SEAMARK_WHOLE_MATRIX") else [f"{point}:3" for point in STEP_POINTS]


@pytest.mark.parametrize(("kind", "point"), [("source", one) for one in MATRIX] + [("sink", one) for one in SINKS])
def test_killed_move_is_finished_by_resume(stack, tmp_path, count_records, point, kind):
    moved = KINDS[kind](stack, tmp_path, cluster=CLUSTER, count_records=count_records)
    try:
        moved.create()
        moved.run_point(point)
    finally:
        moved.close()
