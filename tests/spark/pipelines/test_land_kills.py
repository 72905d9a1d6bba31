"""A landing on a real cluster under every fault: each record is a row, once."""

from __future__ import annotations

import pytest

from tests.spark.pipelines.land_soak import VIOLATIONS, soak
from tests.spark.pipelines.soak_stages import STAGES

ROWS = 200_000
FEW_ROWS = 60_000
EVERYWHERE = ("executor_kills", "driver_kills", "starts_beside", "moves", "broker_restarts", "commits_cut")
COUNTED = {
    "postgresql": ("backends_ended", "database_restarts", "tasks_stopped"),
    "delta": ("s3_restarts", "drivers_stopped"),
    "upsert": ("backends_ended", "database_restarts", "tasks_stopped", "grown"),
}


@pytest.mark.parametrize("to", STAGES)
def test_landing_whose_executor_and_driver_are_killed_lands_each_record_once(stack, tmp_path, to):
    """The kills alone and a few batches: what every run of CI has time for."""
    found = soak(stack, tmp_path, rows=FEW_ROWS, acts=["kill_executor", "kill_driver"], to=to, seed=1, batches=12)
    assert {name: found[name] for name in VIOLATIONS} == dict.fromkeys(VIOLATIONS, 0), found
    assert (found["executor_kills"], found["driver_kills"], found["faults"]) == (1, 1, 2), found


@pytest.mark.parametrize("to", STAGES)
def test_landing_under_ten_faults_lands_each_record_once(stack, tmp_path, to):
    acts = [*STAGES[to].faults, "kill_executor", "kill_driver"][:10]
    if to == "upsert":
        acts[5:] = ["grow", *acts[5:-1]]
    found = soak(stack, tmp_path, rows=ROWS, acts=acts, to=to, seed=1)
    assert {name: found[name] for name in VIOLATIONS} == dict.fromkeys(VIOLATIONS, 0), found
    assert found["faults"] == 10
    assert min(found[name] for name in (*EVERYWHERE, *COUNTED[to])) >= 1, found
