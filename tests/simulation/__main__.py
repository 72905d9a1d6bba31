"""Replays runs: `python -m tests.simulation SEED`, or many: `python -m tests.simulation FIRST COUNT`."""

from __future__ import annotations

import sys
import time
from collections import Counter

from tests.simulation.faults import Violation
from tests.simulation.run import Simulation
from tests.simulation.scenario import build_scenario


def main(arguments: list[str]) -> int:
    """Run the seeds; print the journal of one that is replayed alone."""
    first, count = int(arguments[0]), int(arguments[1]) if len(arguments) > 1 else 1
    counts: Counter[str] = Counter()
    began_at = time.perf_counter()
    failed = 0
    for seed in range(first, first + count):
        simulation = Simulation(build_scenario(seed), counts=counts)
        try:
            simulation.run()
        except (Violation, Exception) as error:
            failed += 1
            print(f"seed {seed}: {type(error).__name__}: {error}")
            if count == 1:
                show(simulation)
                raise
        if count == 1:
            show(simulation)
    seconds = time.perf_counter() - began_at
    print(f"{count} runs in {seconds:.1f} s, {count / seconds:.0f} a second; {failed} failed")
    for name, number in sorted(counts.items()):
        print(f"  {number:8} {name}")
    return 1 if failed else 0


def show(simulation: Simulation) -> None:
    """The scenario and the journal."""
    print(simulation.scenario)
    for change, number in simulation.store.log:
        stored = simulation.store.changes[change]
        entry = stored.entries[number]
        body = {key: value for key, value in entry.body.items() if key not in ("plan", "locks")}
        print(f"{entry.at[11:]} {change[-4:]} {number:2} {stored.writers[number]:12} {entry.kind:8} {body}")
    print(simulation.cluster.connectors)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
