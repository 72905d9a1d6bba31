"""The simulated Connect gives the same results as FakeConnect, which the contract tests hold to real clusters."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from seamark.connect.caller import Timing
from seamark.connect.client import ConnectClient
from tests.fakes.connect import FILE_SOURCE, FakeConnect
from tests.simulation.faults import Process
from tests.simulation.run import Simulation
from tests.simulation.scenario import Scenario
from tests.simulation.traces import VERBS, build_trace, run_trace

TRACES = 100
# A missing connector is asked for twice; the pause between is all that these calls wait for.
QUICK = Timing(first_pause_seconds=0.001, longest_pause_seconds=0.01)


def run_simulated(seed: int) -> list[str]:
    stage = Simulation(Scenario(seed, ()))
    who = stage.operator()
    stage.ledger.sent = lambda process, verb, name, **_more: None
    assert isinstance(who.process, Process)

    def settle(look):
        stage.timeline.advance(10)
        return look()

    config = {"connector.class": FILE_SOURCE, "file": "/nowhere", "topic": "t"}
    return run_trace(who.world.connect("sim"), build_trace(seed), name="a", config=config, settle=settle)


@pytest.mark.timeout(300)
def test_the_same_acts_give_the_same_results():
    counts: Counter[str] = Counter()
    config = {"connector.class": FILE_SOURCE, "file": "/nowhere", "topic": "t"}
    with FakeConnect(workers=1) as fake, ConnectClient(fake.urls, timing=QUICK) as client:
        began_at = time.monotonic()
        for seed in range(TRACES):
            trace = build_trace(seed)
            found = run_trace(client, trace, name=f"trace-{seed}", config=config, settle=lambda look: look())
            assert run_simulated(seed) == found, f"trace {seed}"
            counts.update(verb for verb, _ in trace)
            counts.update(line.partition(": ")[2].partition(";")[0] for line in found)

    print(counts, f"{time.monotonic() - began_at:.1f} s")
    assert all(counts[verb] > 20 for verb in VERBS)
    assert counts["done"] > 200
    assert counts["NOT_FOUND"] > 50
    assert counts["ALREADY_EXISTS"] > 20
