"""Runs the legs of a bench in turn and keeps what each run took."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from bench.harness.cpu import CpuMeter, build_used
from bench.harness.definition import Bench, Leg

S = TypeVar("S")
V = TypeVar("V")

Clock = Callable[[], float]
Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of one leg took."""

    seconds: float
    cpu_seconds: dict[str, float]
    gauges: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Series:
    """All runs at one size: by leg, in the order of the pairs. Warm-up runs are kept apart."""

    size: int
    runs: dict[str, list[Run]]
    warmups: dict[str, list[Run]]
    versions: dict[str, str]


def measure_series(
    bench: Bench[S, V], size: int, *, pairs: int, note: Note, clock: Clock = time.perf_counter
) -> Series:
    """Set the bench up at one size, warm every leg up, then run the pairs.

    The order turns round with every pair (A B, B A, A B …): a machine that gets slower or faster during
    the bench then helps each leg as often as it hurts it.
    """
    note(f"{bench.name}: setting up, size {size}")
    with bench.setup(size) as prepared:
        meter = CpuMeter(prepared.pids, families=prepared.families)
        turns = _Turns(bench, subject=prepared.subject, meter=meter, note=note, clock=clock)
        warmups = turns.run(bench.warmups, word="warm-up")
        runs = turns.run(pairs, word="pair")
        return Series(size=size, runs=runs, warmups=warmups, versions=dict(prepared.versions))


@dataclass(frozen=True, slots=True)
class _Turns(Generic[S, V]):
    bench: Bench[S, V]
    subject: S
    meter: CpuMeter
    note: Note
    clock: Clock

    def run(self, rounds: int, *, word: str) -> dict[str, list[Run]]:
        runs: dict[str, list[Run]] = {leg.name: [] for leg in self.bench.legs}
        for number in range(rounds):
            for leg in self.bench.legs if number % 2 == 0 else reversed(self.bench.legs):
                run = self._run_leg(leg)
                runs[leg.name].append(run)
                self.note(f"{self.bench.name}: {word} {number + 1} of {rounds}, {leg.name} {run.seconds:.3f} s")
        return runs

    def _run_leg(self, leg: Leg[S, V]) -> Run:
        if leg.prepare is not None:
            leg.prepare(self.subject)
        # What the run before left behind is cleared here, so that no leg pays for its neighbour.
        gc.collect()
        cpu_before = self.meter.read()
        before = self.clock()
        value = leg.run(self.subject)
        seconds = self.clock() - before
        used = build_used(cpu_before, self.meter.read())
        self.bench.check(self.subject, value)
        gauges = self.bench.read_gauges(value) if self.bench.read_gauges is not None else {}
        return Run(seconds=seconds, cpu_seconds=used, gauges=dict(gauges))
