"""The harness on legs whose time is counted."""

from __future__ import annotations

import dataclasses

import pytest

from bench.harness.definition import Direction, Growth, Leg, Limit, Quantity, Ratio
from bench.harness.execute import execute_bench
from tests.unit.bench.fakes import Stage, build_bench


def silent(_: str) -> None:
    pass


def run(bench, stage, *, quick=False):
    return execute_bench(bench, quick=quick, note=silent, clock=stage.clock).result


def test_legs_take_turns_and_the_order_turns_round() -> None:
    stage = Stage({"a": [1.0], "b": [1.0]})
    run(build_bench(stage), stage)
    warm_up, pairs = stage.log[:2], stage.log[2:]
    assert warm_up == ["a", "b"]
    assert pairs == ["a", "b", "b", "a", "a", "b", "b", "a", "a", "b"]


def test_quick_runs_three_pairs_and_says_so() -> None:
    stage = Stage({"a": [1.0], "b": [1.0]})
    result = run(build_bench(stage), stage, quick=True)
    assert stage.log[2:] == ["a", "b", "b", "a", "a", "b"]
    assert result.quick
    assert len(result.pairs["a over b"]) == 3
    assert result.intervals["a over b"].coverage == 0.75


def test_warm_up_is_kept_apart() -> None:
    stage = Stage({"a": [100.0, 1.0], "b": [50.0, 2.0]})
    result = run(build_bench(stage, bar=0.4), stage)
    assert result.ratios == {"a over b": 0.5}
    assert result.pairs == {"a over b": [0.5] * 5}
    assert result.seconds == {"a": 1.0, "b": 2.0}
    assert result.warmup_seconds == {"a": [100.0], "b": [50.0]}
    assert result.held


def test_warm_up_is_as_long_as_the_bench_asks() -> None:
    stage = Stage({"a": [9.0, 8.0, 7.0, 1.0], "b": [9.0, 8.0, 7.0, 1.0]})
    result = run(build_bench(stage, warmups=3), stage, quick=True)
    assert "".join(stage.log[:6]) == "abbaab"
    assert result.warmup_seconds == {"a": [9.0, 8.0, 7.0], "b": [9.0, 8.0, 7.0]}
    assert result.seconds == {"a": 1.0, "b": 1.0}


def test_figure_is_the_median_of_paired_ratios() -> None:
    # The medians of the legs alone would give 3 / 1; paired, the slow pairs cancel out.
    stage = Stage({"a": [1.0, 2.0, 20.0, 3.0, 30.0, 4.0], "b": [1.0, 1.0, 10.0, 1.0, 10.0, 1.0]})
    result = run(build_bench(stage), stage)
    assert result.pairs == {"a over b": [2.0, 2.0, 3.0, 3.0, 4.0]}
    assert result.ratios == {"a over b": 3.0}
    interval = result.intervals["a over b"]
    assert (interval.low, interval.high, interval.coverage) == (2.0, 4.0, 0.9375)


def test_median_below_the_bar_is_not_held_though_the_interval_reaches_it() -> None:
    stage = Stage({"a": [1.0, 6.0, 6.0, 6.0, 9.0, 9.0], "b": [10.0]})
    result = run(build_bench(stage), stage)
    assert result.ratios == {"a over b": 0.6}
    assert result.intervals["a over b"].high == 0.9
    assert not result.held
    assert result.misses() == ["a over b is 0.6, the bar is at least 0.7"]
    assert result.error is None


@pytest.mark.parametrize("median", [0.7, 0.70001])
def test_the_bar_itself_holds(median: float) -> None:
    stage = Stage({"a": [median], "b": [1.0]})
    assert run(build_bench(stage), stage).held


def test_at_most_turns_the_bar_round() -> None:
    stage = Stage({"a": [0.8], "b": [1.0]})
    bench = build_bench(stage)
    ratio = dataclasses.replace(bench.ratios[0], direction=Direction.AT_MOST)
    result = run(dataclasses.replace(bench, ratios=(ratio,)), stage)
    assert not result.held
    assert result.misses() == ["a over b is 0.8, the bar is at most 0.7"]


def test_wrong_result_fails_however_fast_it_was() -> None:
    stage = Stage({"a": [10.0], "b": [1.0]}, answers={"b": "nothing"})
    result = run(build_bench(stage), stage)
    assert not result.held
    assert result.error == "wrong result: got nothing"
    assert result.ratios == {}
    assert result.bars == {"a over b": 0.7}
    assert not stage.open, "the setup was closed"


def test_wrong_result_in_a_late_pair_fails_too() -> None:
    stage = Stage({"a": [1.0], "b": [1.0]})
    bench = build_bench(stage)
    legs = (bench.legs[0], Leg("b", lambda one: one.run("b") if one.log.count("b") < 5 else "late"))
    result = run(dataclasses.replace(bench, legs=legs), stage)
    assert result.error == "wrong result: got late"
    assert stage.log.count("b") == 5


def test_failing_leg_becomes_a_result() -> None:
    def break_down(_: Stage) -> str:
        raise OSError("no route")

    stage = Stage({"a": [1.0], "b": [1.0]})
    bench = build_bench(stage)
    result = run(dataclasses.replace(bench, legs=(bench.legs[0], Leg("b", break_down))), stage)
    assert not result.held
    assert result.error == "OSError: no route"


def test_preparation_of_a_leg_is_not_timed() -> None:
    def prepare(stage: Stage) -> None:
        stage.now += 1000

    stage = Stage({"a": [1.0], "b": [1.0]})
    bench = build_bench(stage)
    legs = tuple(dataclasses.replace(leg, prepare=prepare) for leg in bench.legs)
    result = run(dataclasses.replace(bench, legs=legs), stage)
    assert stage.now > 10_000
    assert result.seconds == {"a": 1.0, "b": 1.0}


def test_growth_is_fitted_over_all_sizes() -> None:
    stage = Stage({"a": [1.0], "b": [1.0]})
    bench = build_bench(stage, sizes=(10, 100, 1000), growths=(Growth("a grows", leg="a", bar=1.1),))

    def quadratic(one: Stage) -> str:
        one.now += one.size**2 / 1000
        return "right"

    legs = (Leg("a", quadratic), bench.legs[1])
    result = run(dataclasses.replace(bench, legs=legs), stage)
    assert result.growth["a grows"].sizes == [10, 100, 1000]
    assert result.growth["a grows"].values == [0.1, 10.0, 1000.0]
    assert result.growth["a grows"].exponent == 2.0
    assert result.ratios == {"a over b": 1000.0}, "ratios are those of the last size"
    assert not result.held
    assert result.misses() == ["a grows is 2, the bar is at most 1.1"]


def grow(stage: Stage, *, power: float) -> float:
    return float(stage.size**power)


def test_growth_of_a_gauge_is_fitted_over_all_sizes() -> None:
    stage = Stage({"a": [1.0], "b": [1.0]})
    growth = Growth("memory grows", leg="a", bar=1.2, gauge="MB")
    bench = build_bench(stage, sizes=(10, 100), growths=(growth,), read_gauges=lambda _: {"MB": grow(stage, power=1.5)})
    result = run(bench, stage)
    fit = result.growth["memory grows"]
    assert (fit.exponent, fit.of, fit.sizes) == (1.5, "MB", [10, 100])
    assert result.misses() == ["memory grows is 1.5, the bar is at most 1.2"]


def test_limit_is_judged_by_the_median_at_the_last_size() -> None:
    stage = Stage({"a": [1.0], "b": [1.0]})
    seen = iter([99.0, 99.0, 7.0, 7.0, 8.0, 8.0, 90.0, 90.0])
    limit = Limit("memory", leg="a", gauge="MB", bar=8.0)
    bench = build_bench(stage, limits=(limit,), read_gauges=lambda _: {"MB": next(seen)})
    result = run(bench, stage, quick=True)
    assert result.limits == {"memory": 8.0}, "the warm-up does not count"
    assert (result.intervals["memory"].low, result.intervals["memory"].high) == (7.0, 90.0)
    assert result.held


def test_limit_that_is_passed_is_a_miss() -> None:
    stage = Stage({"a": [1.0], "b": [1.0]})
    bench = build_bench(
        stage, limits=(Limit("memory", leg="b", gauge="MB", bar=8.0),), read_gauges=lambda _: {"MB": 8.5}
    )
    result = run(bench, stage)
    assert not result.held
    assert result.misses() == ["memory is 8.5, the bar is at most 8"]


def test_quick_run_takes_the_quick_sizes() -> None:
    stage = Stage({"a": [1.0], "b": [1.0]})
    bench = build_bench(stage, sizes=(500,), quick_sizes=(100,))
    assert run(bench, stage, quick=True).sizes == [100]
    assert stage.size == 100
    assert run(bench, stage).sizes == [500]


def test_a_ratio_of_cpu_seconds_needs_some() -> None:
    stage = Stage({"a": [1.0], "b": [1.0]})
    bench = build_bench(stage)
    ratio = dataclasses.replace(bench.ratios[0], quantity=Quantity.CPU_SECONDS)
    legs = (bench.legs[0], Leg("b", lambda _: "right"))
    result = run(dataclasses.replace(bench, ratios=(ratio,), legs=legs), stage)
    assert result.error is not None
    assert "took no cpu_seconds" in result.error


def test_ratio_of_a_gauge_compares_what_the_legs_measured() -> None:
    stage = Stage({"a": [1.0], "b": [100.0]})
    # The runs go a b, a b, b a, a b: warm-up first.
    seen = iter([9.0, 1.0, 6.0, 2.0, 4.0, 4.0, 10.0, 2.0])
    bench = build_bench(stage, read_gauges=lambda _: {"p99": next(seen)})
    ratio = dataclasses.replace(bench.ratios[0], gauge="p99")
    result = run(dataclasses.replace(bench, ratios=(ratio,)), stage, quick=True)
    assert result.pairs == {"a over b": [3.0, 1.0, 5.0]}
    assert result.gauges == {"a": {"p99": 6.0}, "b": {"p99": 2.0}}


def test_leg_that_is_too_short_is_a_miss_of_a_whole_run_only() -> None:
    stage = Stage({"a": [20.0], "b": [19.9]})
    bench = build_bench(stage, least_seconds=20.0)
    result = run(bench, stage)
    assert not result.held
    assert result.misses() == ["b lasted 19.9 s, and must last at least 20 s: give the bench a larger size"]
    assert result.error is None, "it is recorded all the same"
    assert run(bench, stage, quick=True).held


def test_cpu_seconds_are_told_by_leg_and_process() -> None:
    stage = Stage({"a": [1.0], "b": [1.0]})
    bench = build_bench(stage)

    def burn(one: Stage) -> str:
        one.now += 1
        total = 0
        for number in range(400_000):
            total += number * number
        return "right" if total else "wrong"

    result = run(dataclasses.replace(bench, legs=(Leg("a", burn), bench.legs[1])), stage)
    assert set(result.cpu_seconds) == {"a", "b"}
    assert set(result.cpu_seconds["a"]) == {"bench", "children"}
    assert result.cpu_seconds["a"]["bench"] > 0


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"pairs": 4}, "5 pairs are the least"),
        ({"quick_pairs": 2}, "3 for a quick run"),
        ({"warmups": 0}, "a warm-up is needed"),
        ({"sizes": ()}, "no size"),
        ({"ratios": ()}, "claims nothing"),
        ({"growths": (Growth("g", leg="a", bar=1),)}, "growth needs two sizes"),
        ({"ratios": (Ratio("r", over="a", under="z", bar=1),)}, "no leg is called z"),
        ({"limits": (Limit("l", leg="y", gauge="MB", bar=1),)}, "no leg is called y"),
        ({"limits": (Limit("l", leg="a", gauge="MB", bar=1),)}, "nobody reads the gauges"),
        ({"ratios": (Ratio("r", over="a", under="b", bar=1, gauge="MB"),)}, "nobody reads the gauges"),
        ({"ratios": (Ratio("r", over="a", under="b", bar=1), Ratio("r", over="b", under="a", bar=1))}, "two claims"),
    ],
)
def test_bench_that_cannot_be_judged_is_refused(change: dict[str, object], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        dataclasses.replace(build_bench(Stage({})), **change)


def test_three_legs_take_turns_too() -> None:
    stage = Stage({"a": [1.0], "b": [1.0], "c": [4.0]})
    bench = build_bench(stage)
    three = dataclasses.replace(
        bench,
        legs=(*bench.legs, Leg("c", lambda one: one.run("c"))),
        ratios=(*bench.ratios, Ratio("c over a", over="c", under="a", bar=2)),
    )
    result = run(three, stage, quick=True)
    assert "".join(stage.log[3:]) == "abccbaabc"
    assert result.ratios == {"a over b": 1.0, "c over a": 4.0}
