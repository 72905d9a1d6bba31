"""A bench whose time is counted, not spent: each leg says how long it took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from bench.harness.definition import Bench, Growth, Leg, Prepared, Ratio, WrongResultError

RIGHT = "right"


@dataclass
class Stage:
    """What the legs share: a clock that only they move, and a log of what ran."""

    costs: dict[str, Sequence[float]]
    now: float = 0.0
    log: list[str] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)
    size: int = 0
    open: bool = False

    def clock(self) -> float:
        return self.now

    def run(self, leg: str) -> str:
        assert self.open, "a leg ran outside its setup"
        done = self.log.count(leg)
        costs = self.costs[leg]
        self.now += costs[min(done, len(costs) - 1)]
        self.log.append(leg)
        return self.answers.get(leg, RIGHT)


def build_bench(
    stage: Stage, *, bar: float = 0.7, sizes: tuple[int, ...] = (1,), growths: tuple[Growth, ...] = (), **more: Any
) -> Bench[Stage, str]:
    """Two legs, a and b; the ratio is a over b."""

    @contextmanager
    def setup(size: int) -> Iterator[Prepared[Stage]]:
        stage.size, stage.open = size, True
        try:
            yield Prepared(stage, versions={"kafka": "4.3.1"})
        finally:
            stage.open = False

    def check(_: Stage, value: str) -> None:
        if value != RIGHT:
            raise WrongResultError(f"got {value}")

    return Bench(
        name="fake",
        compares="Two legs that only count.",
        setup=setup,
        check=check,
        legs=(Leg("a", lambda one: one.run("a")), Leg("b", lambda one: one.run("b"))),
        ratios=(Ratio("a over b", over="a", under="b", bar=bar),),
        sizes=sizes,
        growths=growths,
        **more,
    )
