"""The simulation can fail: each planted bug turns it red within a few thousand runs."""

from __future__ import annotations

import pytest

from tests.simulation.bugs import BUGS, ages_of_other_leaders
from tests.simulation.faults import Fault, Kind, Violation
from tests.simulation.run import Simulation
from tests.simulation.scenario import Kept, Lane, Round, Scenario, Shape, Way, build_scenario

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


def find_violations() -> list[str]:
    """Kill a process with its request in flight, and let another leader append what resumes the change."""
    found = []
    for at in range(1, 90):
        faults = (Fault(at, Kind.KILL_LATE, 0.99),)
        rounds = (Round(Way.RESUME, (Fault(1, Kind.LEADER_MOVED, 0.9),)),)
        try:
            Simulation(Scenario(2, (Lane(Shape.GUARDED_TWICE),), faults, rounds, journal=Kept.KAFKA)).run()
        except Violation as violation:
            found.append(f"killed at call {at}: {violation}")
    return found


def test_ages_by_the_clocks_of_two_leaders_turn_the_simulation_red(monkeypatch):
    assert find_violations() == []
    ages_of_other_leaders(monkeypatch)

    found = find_violations()

    print(*found, sep="\n")
    assert found
