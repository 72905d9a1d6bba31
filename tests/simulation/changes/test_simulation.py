"""20,000 simulated runs with faults at random calls, and a fault at every call of small plans."""

from __future__ import annotations

import secrets
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulation.faults import APPLICABLE, Call, Fault, Kind, Violation
from tests.simulation.run import Simulation
from tests.simulation.scenario import (
    STATES,
    Kept,
    Lane,
    Round,
    Scenario,
    Secrets,
    Shape,
    Way,
    build_scenario,
)
from tests.simulation.world import TIMING

CHUNKS = 20
RUNS_PER_CHUNK = 1_000
FRESH_RUNS = 300

# What each chunk must have met, or it has shown nothing.
WORK = (
    "killed",
    "resumes",
    "abandons",
    "fenced",
    "taken over from a stopped process",
    "rival locked out",
    "rival came through",
    "outcome unknown",
    "outcome did not happen",
    "outcome foreign change",
    "left open by a foreign change",
    "undone",
    "undo refused",
    "spooled",
    "journal failed, and everything was restored",
    "ended done",
    "ended partly",
    "ended failed",
    "ended open",
)


def run_seeds(seeds: range) -> Counter[str]:
    """Run the scenarios of these seeds; the first violation is told with the command that replays it."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        try:
            Simulation(build_scenario(seed), counts=counts).run()
        except Exception as error:  # noqa: BLE001 - a seed that breaks anything is told
            pytest.fail(f"{type(error).__name__}: {error}\nreplay: python -m tests.simulation {seed}")
    return counts


def count_kind(counts: Counter[str], kind: Kind) -> int:
    return sum(counts[f"{call}: {kind}"] for call in Call)


def print_counts(counts: Counter[str]) -> None:
    print(*(f"{number:8} {name}" for name, number in sorted(counts.items())), sep="\n")


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_invariant_is_violated_by_any_fault(chunk):
    counts = run_seeds(range(chunk * RUNS_PER_CHUNK, (chunk + 1) * RUNS_PER_CHUNK))

    print_counts(counts)
    assert counts["runs"] == RUNS_PER_CHUNK
    # Requests are sent late, after stops and pauses, but never later than the code says.
    latest = counts["longest ms from an entry to its request"] / 1000
    assert 1.0 < latest <= TIMING.begin_seconds + TIMING.send_seconds
    assert [work for work in WORK if not counts[work]] == []
    assert [kind for kind in Kind if not count_kind(counts, kind)] == []


def test_no_invariant_is_violated_in_runs_nobody_has_seen():
    first = 10**9 + secrets.randbelow(10**9)
    print(f"seeds {first} to {first + FRESH_RUNS - 1}")

    counts = run_seeds(range(first, first + FRESH_RUNS))

    print_counts(counts)
    assert counts["runs"] == FRESH_RUNS
    assert counts["killed"] > 0
    assert counts["resumes"] > 0


def count_calls(lanes: tuple[Lane, ...], *, seed: int, journal: Kept = Kept.FILES) -> list[Call]:
    simulation = Simulation(Scenario(seed, lanes, journal=journal))
    simulation.run()
    assert simulation.first is not None
    return simulation.first.process.trace


@pytest.mark.parametrize("shape", Shape)
def test_a_fault_at_every_call(shape):
    lanes = (Lane(shape, failed=1, secrets=Secrets.REFERENCE if shape is Shape.DELETE else Secrets.KEPT),)
    calls = count_calls(lanes, seed=1)
    counts: Counter[str] = Counter()
    scenarios = [
        Scenario(1, lanes, faults=(Fault(number, kind, size),), undo=True)
        for number, call in enumerate(calls, start=1)
        for kind in sorted(APPLICABLE[call])
        # Before an entry and after it; early and late.
        for size in (0.31, 0.96)
    ]

    for scenario in scenarios:
        try:
            Simulation(scenario, counts=counts).run()
        except Violation as error:
            pytest.fail(f"{error}\n{scenario}")

    assert {Call.READ, Call.WRITE, Call.APPEND} <= set(calls)
    assert counts["runs"] == len(scenarios) > 200
    # At least: whoever takes a change over may be killed too.
    assert sum(count_kind(counts, kind) for kind in Kind) >= len(scenarios)


@pytest.mark.parametrize("shape", [Shape.GUARDED_PUT, Shape.CREATE])
def test_a_fault_at_every_call_with_the_kafka_journal(shape):
    lanes = (Lane(shape, failed=1, secrets=Secrets.REFERENCE),)
    calls = count_calls(lanes, seed=2, journal=Kept.KAFKA)
    counts: Counter[str] = Counter()
    scenarios = [
        # Before a call or after it, early or late, in turn.
        Scenario(2, lanes, faults=(Fault(number, kind, (0.31, 0.96)[number % 2]),), undo=True, journal=Kept.KAFKA)
        for number, call in enumerate(calls, start=1)
        for kind in sorted(APPLICABLE[call])
    ]

    for scenario in scenarios:
        try:
            Simulation(scenario, counts=counts).run()
        except Violation as error:
            pytest.fail(f"{error}\n{scenario}")

    assert {Call.READ, Call.WRITE, Call.ASK, Call.FETCH, Call.PRODUCE, Call.TAKE, Call.COMMIT, Call.SLEEP} <= set(calls)
    assert counts["runs"] == len(scenarios) > 500
    assert sum(count_kind(counts, kind) for kind in Kind) >= len(scenarios)


@pytest.mark.parametrize("way", Way)
def test_a_kill_at_every_call_of_the_recovery_of_a_kill_at_every_call(way):
    lanes = (Lane(Shape.GUARDED_PUT, state="PAUSED"),)
    calls = len(count_calls(lanes, seed=1))
    counts: Counter[str] = Counter()

    for first in range(1, calls + 1):
        for second in range(1, 16):
            rounds = (Round(way, (Fault(second, Kind.KILL),)),)
            Simulation(Scenario(1, lanes, faults=(Fault(first, Kind.KILL),), rounds=rounds), counts=counts).run()

    assert counts["runs"] == calls * 15
    assert counts["killed"] > calls * 20


@pytest.mark.parametrize("journal", Kept)
def test_a_kill_while_the_run_state_is_restored_without_the_journal(journal):
    lanes = (Lane(Shape.GUARDED_PUT),)
    calls = len(count_calls(lanes, seed=2, journal=journal))
    counts: Counter[str] = Counter()
    for failing in range(1, calls + 1):
        for later in range(1, 10, 2):
            faults = (Fault(failing, Kind.JOURNAL_FAILS, 0.99), Fault(failing + later, Kind.KILL_LATE, 0.99))
            # Brokers of odd seeds refuse the entries of a clock that is ahead.
            scenario = Scenario(2 * failing, lanes, faults, undo=True, journal=journal)
            try:
                Simulation(scenario, counts=counts).run()
            except Violation as error:
                pytest.fail(f"{error}\n{scenario}")

    assert counts["landed late without the journal"] > 10


SIZES = st.floats(min_value=0, max_value=1, exclude_max=True)
FAULTS = st.lists(st.builds(Fault, at=st.integers(1, 120), kind=st.sampled_from(Kind), size=SIZES), max_size=3).map(
    tuple
)
LANES = st.builds(
    Lane,
    shape=st.sampled_from(Shape),
    state=st.sampled_from(STATES),
    wanted=st.sampled_from(STATES),
    secrets=st.sampled_from(Secrets),
    failed=st.integers(0, 2),
)
SCENARIOS = st.builds(
    Scenario,
    seed=st.integers(0, 2**16),
    lanes=st.lists(LANES, min_size=1, max_size=2).map(tuple),
    faults=FAULTS,
    rounds=st.lists(st.builds(Round, way=st.sampled_from(Way), faults=FAULTS), max_size=2).map(tuple),
    undo=st.booleans(),
    undo_faults=FAULTS,
    locks_cluster=st.booleans(),
    journal=st.sampled_from(Kept),
)


@settings(max_examples=500, deadline=None, database=None)
@given(SCENARIOS)
def test_hypothesis_finds_no_scenario_that_violates_an_invariant(scenario):
    Simulation(scenario).run()


def test_a_run_without_faults_is_done_and_undone():
    for shape in Shape:
        simulation = Simulation(Scenario(7, (Lane(shape, failed=1),), undo=True))
        simulation.run()
        expected = 1 if shape is Shape.RESTART else 2
        assert simulation.counts["ended done"] == expected, shape
        assert simulation.counts["undone"] == expected - 1, shape


def test_the_same_seed_gives_the_same_run():
    first, second = (Simulation(build_scenario(4711)) for _ in range(2))
    first.run()
    second.run()

    assert [stored.data for stored in first.store.changes.values()] == [
        stored.data for stored in second.store.changes.values()
    ]
    assert first.store.log
