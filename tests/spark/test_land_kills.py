"""A landing on a real cluster under every fault: each record is a row, once."""

from __future__ import annotations

from tests.spark.land_soak import FAULTS, VIOLATIONS, soak

ROWS = 200_000


def test_landing_under_ten_faults_lands_each_record_once(stack, tmp_path):
    acts = [*FAULTS, "kill_executor", "kill_driver"]
    found = soak(stack, tmp_path, rows=ROWS, acts=acts, seed=1)
    assert {name: found[name] for name in VIOLATIONS} == dict.fromkeys(VIOLATIONS, 0), found
    assert (found["executor_kills"], found["driver_kills"]) == (2, 2)
    assert min(found[name] for name in ("backends_ended", "database_restarts", "starts_beside", "tasks_stopped")) >= 1
    assert min(found[name] for name in ("moves", "checkpoints_deleted")) >= 1
