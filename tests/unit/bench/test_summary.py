"""Medians, intervals and exponents."""

from __future__ import annotations

import random
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.harness.summary import build_exponent, build_interval


@pytest.mark.parametrize(
    ("count", "low", "high", "coverage"),
    [(1, 1, 1, 0.0), (3, 1, 3, 0.75), (4, 1, 4, 0.875), (5, 1, 5, 0.9375), (7, 1, 7, 0.984375), (8, 2, 7, 0.9296875)],
)
def test_interval_ranks_follow_the_binomial(count: int, low: float, high: float, coverage: float) -> None:
    interval = build_interval([float(value) for value in range(count, 0, -1)])
    assert (interval.low, interval.high, interval.coverage) == (low, high, coverage)


def test_interval_covers_the_true_median_as_often_as_it_says() -> None:
    source = random.Random(20261115)
    # A skewed distribution with true median 1: the method assumes no shape.
    runs = [build_interval([2.0 ** source.gauss(0, 2) for _ in range(5)]) for _ in range(4000)]
    share = sum(run.low <= 1.0 <= run.high for run in runs) / len(runs)
    # 4000 runs: the standard error of a share near 0.94 is 0.004; four of them either way.
    assert share == pytest.approx(0.9375, abs=0.016)


@given(st.lists(st.floats(min_value=1e-6, max_value=1e6), min_size=1, max_size=40))
def test_interval_encloses_the_sample_median(values: list[float]) -> None:
    interval = build_interval(values)
    assert interval.low <= median(values) <= interval.high
    assert interval.coverage >= 0.9 or len(values) < 5


def test_interval_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no values"):
        build_interval([])


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_exponent_of_a_pure_power_is_found(power: float) -> None:
    sizes = [10, 50, 1000, 20_000]
    assert build_exponent(sizes, [3.0 * size**power for size in sizes]) == pytest.approx(power)


def test_exponent_of_one_size_is_refused() -> None:
    with pytest.raises(ValueError, match="two sizes"):
        build_exponent([10, 10], [1.0, 2.0])
