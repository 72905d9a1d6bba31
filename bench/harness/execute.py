"""A bench from start to result. Whatever goes wrong in it becomes a result that is not held."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from bench.harness.definition import Bench, WrongResultError
from bench.harness.measure import Clock, Note, measure_series
from bench.harness.result import BenchResult, build_failure, build_result


@dataclass(frozen=True, slots=True)
class Outcome:
    """A result and the versions of the servers it was measured with."""

    result: BenchResult
    versions: dict[str, str] = field(default_factory=dict)


def execute_bench(bench: Bench[Any, Any], *, quick: bool, note: Note, clock: Clock = time.perf_counter) -> Outcome:
    """Measure every size and judge. The caller prints."""
    pairs = bench.quick_pairs if quick else bench.pairs
    try:
        sizes = bench.choose_sizes(quick=quick)
        series = [measure_series(bench, size, pairs=pairs, note=note, clock=clock) for size in sizes]
        result = build_result(bench, series, quick=quick)
    except WrongResultError as error:
        return Outcome(build_failure(bench, quick=quick, error=f"wrong result: {error}"))
    except Exception as error:  # noqa: BLE001 - whatever a leg raises, the last line must be a result
        return Outcome(build_failure(bench, quick=quick, error=f"{type(error).__name__}: {error}"))
    return Outcome(result, versions=series[-1].versions)
