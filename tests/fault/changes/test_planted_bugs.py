"""The tests can fail: each of six planted bugs turns them red, and without one the same runs are green.

The bugs are patches that stand in the tests (`tests/simulation/bugs.py`, `journal_child.plant`); the product has no
switch for them.
"""

from __future__ import annotations

import pytest

from tests.fault.changes.journal_child import APPENDS
from tests.fault.changes.journal_stage import Stage
from tests.fault.changes.strace import find_unsynced
from tests.simulation import bugs
from tests.simulation.faults import Violation
from tests.simulation.run import Simulation
from tests.simulation.scenario import build_scenario

# Where nothing is planted, 500 runs: four processes share two cores.
pytestmark = pytest.mark.timeout(900)
# Each is found within the first dozen seeds.
MOST_RUNS = 500


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("pycache")


def look_in_simulation(plant):
    """The first violation of the simulation, and the seed that shows it; None if there is none."""
    with pytest.MonkeyPatch.context() as patch:
        if plant:
            plant(patch)
        for seed in range(MOST_RUNS):
            try:
                Simulation(build_scenario(seed)).run()
            except Violation as violation:
                return seed, str(violation)
    return None


def look_for_unsynced(folder, plant, *, cache):
    """What the file journal acknowledged before it was on the disk, seen by strace."""
    found = []
    for act in ("begin", "take-over"):
        stage = Stage(folder / act, act, cache=cache)
        run = stage.run(*plant, calls="write,fsync,/^rename", is_filtered=False)
        assert run.code == 0
        wrong, acknowledged = find_unsynced(run.log)
        assert acknowledged == APPENDS + 2
        found += wrong
    return found


def look_for_lost_tail(folder, plant, *, cache):
    """Whether the check of a take-over misses the torn tail that stood there."""
    stage = Stage(folder, "take-over", cache=cache)
    run = stage.run(*plant)
    assert run.code == 0
    try:
        stage.check(run)
    except AssertionError as error:
        return [str(error)]
    return []


def look(name, folder, *, planted, cache):
    if name == "missed fsync":
        return look_for_unsynced(folder, ("missed-fsync",) if planted else (), cache=cache)
    if name == "torn tail repaired":
        return look_for_lost_tail(folder / "tail", ("torn-repaired",) if planted else (), cache=cache)
    return look_in_simulation(getattr(bugs, name.replace(" ", "_")) if planted else None)


BUGS = (
    "act before intent",
    "stale lock accepted",
    "swallowed 500",
    "missed fsync",
    "resume before observe",
    "torn tail repaired",
)


@pytest.mark.parametrize("name", BUGS)
def test_planted_bug_is_found(name, tmp_path, cache):
    found = look(name, tmp_path, planted=True, cache=cache)
    assert found, f"nobody noticed: {name}"
    print(f"{name}: {found[:2]}")


@pytest.mark.parametrize("name", ["act before intent", "missed fsync", "torn tail repaired"])
def test_without_a_bug_nothing_is_found(name, tmp_path, cache):
    assert not look(name, tmp_path, planted=False, cache=cache)
