"""The outcome of a bench: the object that is printed last, and what is judged by it."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median
from typing import Any

from pydantic import BaseModel, ConfigDict

from bench.harness.definition import Bench, BenchError, Direction, Growth, Quantity, Ratio
from bench.harness.measure import Run, Series
from bench.harness.summary import build_exponent, build_interval


class Strict(BaseModel):
    """Our own file: a field we do not know is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class IntervalResult(Strict):
    """The interval of a median."""

    low: float
    high: float
    coverage: float


class GrowthResult(Strict):
    """How the seconds of a leg grow, or a gauge of it."""

    exponent: float
    sizes: list[int]
    values: list[float]
    of: str = "seconds"


class BenchResult(Strict):
    """One bench run.

    `held` is true if every claim is on the right side of its bar, every leg lasted `least_seconds`, and nothing was
    wrong. `gauges` are the medians of what the legs measured themselves.
    """

    bench: str
    ratios: dict[str, float] = {}
    bars: dict[str, float] = {}
    directions: dict[str, Direction] = {}
    intervals: dict[str, IntervalResult] = {}
    pairs: dict[str, list[float]] = {}
    growth: dict[str, GrowthResult] = {}
    limits: dict[str, float] = {}
    seconds: dict[str, float] = {}
    least_seconds: float = 0.0
    gauges: dict[str, dict[str, float]] = {}
    warmup_seconds: dict[str, list[float]] = {}
    cpu_seconds: dict[str, dict[str, float]] = {}
    sizes: list[int] = []
    quick: bool
    held: bool
    error: str | None = None

    def build_figures(self) -> dict[str, float]:
        """What is judged, by the name of its claim."""
        return {**self.ratios, **{name: growth.exponent for name, growth in self.growth.items()}, **self.limits}

    def misses(self) -> list[str]:
        """A sentence for each claim that does not hold, and for each leg that was too short."""
        figures = self.build_figures()
        missed = [
            f"{name} is {figures[name]:g}, the bar is {self.directions[name].value.replace('_', ' ')} {bar:g}"
            for name, bar in self.bars.items()
            if name in figures and not self.directions[name].is_held(figures[name], bar)
        ]
        short = [
            f"{leg} lasted {seconds:g} s, and must last at least {self.least_seconds:g} s: give the bench a larger size"
            for leg, seconds in self.seconds.items()
            if seconds < self.least_seconds
        ]
        return missed + short

    def as_line(self) -> str:
        """One line of JSON."""
        return self.model_dump_json(exclude_none=True)


def build_failure(bench: Bench[Any, Any], *, quick: bool, error: str) -> BenchResult:
    """The result of a bench that gave none: its bars, and what went wrong."""
    return BenchResult(
        bench=bench.name,
        bars={claim.name: claim.bar for claim in bench.claims},
        directions={claim.name: claim.direction for claim in bench.claims},
        sizes=list(bench.choose_sizes(quick=quick)),
        quick=quick,
        held=False,
        error=error,
    )


def build_result(bench: Bench[Any, Any], series: Sequence[Series], *, quick: bool) -> BenchResult:
    """Judge what was measured. The median is compared, not the interval."""
    last = series[-1]
    paired = {ratio.name: _build_paired(ratio, last) for ratio in bench.ratios}
    # The median is rounded before it is judged, so that anyone who reads the line comes to the same answer.
    ratios = {name: _rounded(median(values)) for name, values in paired.items()}
    growth = {growth.name: _build_growth(growth, series) for growth in bench.growths}
    measured = {limit.name: [run.gauges[limit.gauge] for run in last.runs[limit.leg]] for limit in bench.limits}
    limits = {name: _rounded(median(values)) for name, values in measured.items()}
    result = BenchResult(
        bench=bench.name,
        ratios=ratios,
        bars={claim.name: claim.bar for claim in bench.claims},
        directions={claim.name: claim.direction for claim in bench.claims},
        intervals={name: _build_interval_result(values) for name, values in (paired | measured).items()},
        pairs={name: [_rounded(value) for value in values] for name, values in paired.items()},
        growth=growth,
        limits=limits,
        seconds={leg: _rounded(median([run.seconds for run in runs])) for leg, runs in last.runs.items()},
        least_seconds=0.0 if quick else bench.least_seconds,
        gauges={leg: found for leg, runs in last.runs.items() if (found := _build_gauges(runs))},
        warmup_seconds={leg: [_rounded(run.seconds) for run in runs] for leg, runs in last.warmups.items()},
        cpu_seconds={leg: _build_cpu(runs) for leg, runs in last.runs.items()},
        sizes=[one.size for one in series],
        quick=quick,
        held=True,
    )
    return result.model_copy(update={"held": not result.misses()})


def _build_paired(ratio: Ratio, series: Series) -> list[float]:
    over = [_read_quantity(run, ratio) for run in series.runs[ratio.over]]
    under = [_read_quantity(run, ratio) for run in series.runs[ratio.under]]
    if not all(under):
        of = ratio.gauge or ratio.quantity.value
        raise BenchError(f"{ratio.name}: a run of {ratio.under} took no {of}; let it do more")
    return [above / below for above, below in zip(over, under, strict=True)]


def _read_quantity(run: Run, ratio: Ratio) -> float:
    if ratio.gauge is not None:
        return run.gauges[ratio.gauge]
    return run.seconds if ratio.quantity is Quantity.SECONDS else sum(run.cpu_seconds.values())


def _build_growth(growth: Growth, series: Sequence[Series]) -> GrowthResult:
    gauge = growth.gauge
    values = [
        median([run.seconds if gauge is None else run.gauges[gauge] for run in one.runs[growth.leg]]) for one in series
    ]
    of = gauge or "seconds"
    if not all(value > 0 for value in values):
        raise BenchError(f"{growth.name}: a size of {growth.leg} took no {of}; let it do more")
    sizes = [one.size for one in series]
    exponent = _rounded(build_exponent(sizes, values))
    return GrowthResult(exponent=exponent, sizes=sizes, values=[_rounded(value) for value in values], of=of)


def _build_interval_result(values: Sequence[float]) -> IntervalResult:
    interval = build_interval(values)
    return IntervalResult(
        low=_rounded(interval.low), high=_rounded(interval.high), coverage=_rounded(interval.coverage)
    )


def _build_gauges(runs: Sequence[Run]) -> dict[str, float]:
    return {name: _rounded(median([run.gauges[name] for run in runs])) for name in runs[0].gauges}


def _build_cpu(runs: Sequence[Run]) -> dict[str, float]:
    # The mean, not the median: a tick is 10 ms, and only the mean sees between two ticks.
    return {name: _rounded(fmean(run.cpu_seconds[name] for run in runs)) for name in runs[0].cpu_seconds}


def _rounded(value: float) -> float:
    return round(value, 4)
