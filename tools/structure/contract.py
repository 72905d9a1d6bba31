"""The layer contract of the packages to come: who may import whom."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from tools.structure.placement import GONE, Placement
from tools.structure.tree import ROOT, Use

# From the top down. Packages in one row never import each other.
LAYERS = (
    ("cli",),
    ("server", "demo"),
    ("fleet",),
    ("specs",),
    ("copies", "pipelines", "lifecycle", "dead_letters", "doctor", "overview", "kip199", "consumer"),
    ("offsets",),
    ("connectors", "topics", "groups"),
    ("changes", "kafka_sink"),
    ("connect", "kafka", "tables", "spark", "formats"),
    ("context", "report"),
    ("policy",),
    ("core",),
    ("errors",),
)
DEVSTACK = "devstack"
TESTS = "tests"
_RANKS = {package: len(LAYERS) - row for row, packages in enumerate(LAYERS) for package in packages}
PACKAGES = frozenset({*_RANKS, DEVSTACK, TESTS, ROOT})


class Direction(StrEnum):
    """How a use breaks the contract."""

    UPWARD = "upward"
    SIDEWAYS = "sideways"
    DEVSTACK = "devstack"
    TESTS = "tests"
    GONE = "dissolved"


@dataclass(frozen=True, slots=True, order=True)
class Violation:
    """One use that the contract forbids, with the packages on both ends."""

    importing: str
    imported: str
    direction: Direction
    use: Use

    def __str__(self) -> str:
        return f"{self.direction}: {self.importing} -> {self.imported}: {self.use.user} -> {self.use.used}"


def find_violations(uses: Iterable[Use], placement: Placement) -> list[Violation]:
    """Return the uses that would break the contract if everything were where the map puts it, in order."""
    found = []
    for use in uses:
        importing, imported = placement.find_package(use.user), placement.find_package(use.used)
        direction = find_direction(importing, imported)
        if direction is not None:
            found.append(Violation(importing, imported, direction, use))
    return sorted(found)


def find_direction(importing: str, imported: str) -> Direction | None:
    """Return how an import between two packages breaks the contract; None if it doesn't."""
    # The root only names the public API, lazily; packages take the version from it. What a dissolved package imports
    # goes with it. Tests may import anything.
    if importing in {imported, ROOT, GONE, TESTS} or imported == ROOT:
        return None
    if imported in {GONE, TESTS}:
        return Direction.GONE if imported == GONE else Direction.TESTS
    if DEVSTACK in {importing, imported}:
        return None if imported == "errors" or importing == "demo" else Direction.DEVSTACK
    distance = _RANKS[imported] - _RANKS[importing]
    return None if distance < 0 else Direction.UPWARD if distance else Direction.SIDEWAYS
