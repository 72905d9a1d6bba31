"""What a bench is: legs that do the same work in different ways, and the ratios that are claimed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

S = TypeVar("S")
V = TypeVar("V")


class BenchError(Exception):
    """The bench could not be measured; its figures mean nothing."""


class WrongResultError(BenchError):
    """A leg gave a result that is not the right one. How fast it was does not matter then."""


class Direction(StrEnum):
    """On which side of its bar a figure has to be."""

    AT_LEAST = "at_least"
    AT_MOST = "at_most"

    def is_held(self, figure: float, bar: float) -> bool:
        """Whether the figure is on the right side; the bar itself is."""
        return figure >= bar if self is Direction.AT_LEAST else figure <= bar


class Quantity(StrEnum):
    """What a ratio compares."""

    SECONDS = "seconds"
    # Of all watched processes together. It moves less than the clock on a machine that does other work too.
    CPU_SECONDS = "cpu_seconds"


@dataclass(frozen=True, slots=True)
class Ratio:
    """A claim: a quantity of the leg `over`, divided by that of the leg `under`, against a bar.

    `gauge` names what the legs measured themselves, and takes the place of `quantity`.
    """

    name: str
    over: str
    under: str
    bar: float
    direction: Direction = Direction.AT_LEAST
    quantity: Quantity = Quantity.SECONDS
    gauge: str | None = None


@dataclass(frozen=True, slots=True)
class Growth:
    """A claim: the seconds of a leg, or a gauge of it, grow with the size to the power of at most `bar`."""

    name: str
    leg: str
    bar: float
    direction: Direction = Direction.AT_MOST
    gauge: str | None = None


@dataclass(frozen=True, slots=True)
class Limit:
    """A claim: a gauge of one leg, against a bar that holds on any machine of the size we build for."""

    name: str
    leg: str
    gauge: str
    bar: float
    direction: Direction = Direction.AT_MOST


Claim = Ratio | Growth | Limit


@dataclass(frozen=True, slots=True)
class Prepared(Generic[S]):
    """What a setup gives: the subject of the legs, and the servers whose CPU time counts.

    `families` are pids too, of which all descendants count together, and they themselves do not.
    """

    subject: S
    pids: Mapping[str, int] = field(default_factory=dict)
    families: Mapping[str, int] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Leg(Generic[S, V]):
    """One way to do the work. Only `run` is timed; `prepare` runs before each run of it."""

    name: str
    run: Callable[[S], V]
    prepare: Callable[[S], None] | None = None


@dataclass(frozen=True, slots=True)
class Bench(Generic[S, V]):
    """One bench.

    `setup` is called once for each size and serves all legs. `check` gets what a leg returned, after
    every run, and raises WrongResultError. Ratios and limits are judged at the last size, growth over all of them.
    `read_gauges` tells what a leg measured of itself, by name: the memory of a child, for one.
    """

    name: str
    compares: str
    setup: Callable[[int], AbstractContextManager[Prepared[S]]]
    check: Callable[[S, V], None]
    legs: tuple[Leg[S, V], ...]
    ratios: tuple[Ratio, ...]
    sizes: tuple[int, ...]
    growths: tuple[Growth, ...] = ()
    limits: tuple[Limit, ...] = ()
    read_gauges: Callable[[V], Mapping[str, float]] | None = None
    # With 5 pairs, lowest and highest ratio enclose the median with 94 % (see summary.py); with 4, only with 88 %.
    pairs: int = 5
    quick_pairs: int = 3
    # Smaller sizes for a quick run, where the others take too long for it.
    quick_sizes: tuple[int, ...] = ()
    # A shorter run of a leg measures mostly its start and end. Quick runs are exempt.
    least_seconds: float = 0.0
    # Runs of each leg before the first pair. A JVM that compiles as it goes needs many, also in a quick run.
    warmups: int = 1

    @property
    def claims(self) -> tuple[Claim, ...]:
        """All that is judged."""
        return (*self.ratios, *self.growths, *self.limits)

    def choose_sizes(self, *, quick: bool) -> tuple[int, ...]:
        """The sizes of a run."""
        return self.quick_sizes if quick and self.quick_sizes else self.sizes

    def __post_init__(self) -> None:
        """Refuse a bench that can't be judged."""
        names = [leg.name for leg in self.legs]
        asked = {name for ratio in self.ratios for name in (ratio.over, ratio.under)}
        asked |= {growth.leg for growth in self.growths} | {limit.leg for limit in self.limits}
        has_gauge = any(claim.gauge for claim in self.claims)
        claims = [claim.name for claim in self.claims]
        faults = {
            "two legs have one name": len(set(names)) < len(names),
            f"no leg is called {', '.join(sorted(asked - set(names)))}": bool(asked - set(names)),
            "it claims nothing": not claims,
            "two claims have one name": len(set(claims)) < len(claims),
            "5 pairs are the least, and 3 for a quick run": self.pairs < 5 or self.quick_pairs < 3,
            "a warm-up is needed": self.warmups < 1,
            "it has no size": not self.sizes,
            "growth needs two sizes": bool(self.growths)
            and min(len(set(self.choose_sizes(quick=quick))) for quick in (False, True)) < 2,
            "nobody reads the gauges": has_gauge and self.read_gauges is None,
        }
        if found := [text for text, is_faulty in faults.items() if is_faulty]:
            raise ValueError(f"bench {self.name}: {'; '.join(found)}")
