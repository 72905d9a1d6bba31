"""The simulation can fail: each planted bug turns it red within a few thousand runs."""

from __future__ import annotations

import pytest

from tests.simulation.bugs import BUGS
from tests.simulation.faults import Violation
from tests.simulation.run import Simulation
from tests.simulation.scenario import build_scenario

MOST_RUNS = 4_000


@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_turns_the_simulation_red(plant, monkeypatch):
    plant(monkeypatch)

    for seed in range(MOST_RUNS):
        try:
            Simulation(build_scenario(seed)).run()
        except Violation as violation:
            print(f"found at seed {seed}: {violation}")
            return
    pytest.fail(f"{plant.__name__} was not found in {MOST_RUNS} runs")
