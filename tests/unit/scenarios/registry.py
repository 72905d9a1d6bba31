"""The scenarios by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from tests.unit.scenarios.environment import Environment

RECORDED = Path(__file__).parent / "recorded"

# The modules that define scenarios.
AREAS = (
    "connectors",
    "specs",
    "brokers",
    "offsets",
    "stored_offsets",
    "copies",
    "imports",
    "failures",
    "recovery",
    "rebuild",
)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A function that prepares fakes and runs commands. `environment` is the class that it needs."""

    name: str
    play: Callable[[Environment], None]
    environment: type[Environment]

    @property
    def recording(self) -> Path:
        """The file with the recorded outputs."""
        return RECORDED / f"{self.name}.txt"


_SCENARIOS: dict[str, Scenario] = {}


def scenario(
    environment: type[Environment] = Environment,
) -> Callable[[Callable[[Environment], None]], Callable[[Environment], None]]:
    """Register a function as a scenario, under its name with dashes."""

    def register(play: Callable[[Environment], None]) -> Callable[[Environment], None]:
        name = play.__name__.replace("_", "-")
        if name in _SCENARIOS:
            raise ValueError(f"two scenarios are called {name}")
        _SCENARIOS[name] = Scenario(name, play, environment)
        return play

    return register


def read_scenarios() -> Mapping[str, Scenario]:
    """Import every area and return the scenarios, sorted by name."""
    for area in AREAS:
        import_module(f"tests.unit.scenarios.{area}")
    return dict(sorted(_SCENARIOS.items()))
