"""Plays a scenario and returns what it printed."""

from __future__ import annotations

from pathlib import Path

from tests.unit.scenarios.environment import open_environment
from tests.unit.scenarios.registry import Scenario

OUTPUTS = ("text", "json")


def play(scenario: Scenario, folder: Path) -> str:
    """Play a scenario once per output format, in new folders, and return one text."""
    parts = [f"{scenario.name}: {(scenario.play.__doc__ or '').strip().splitlines()[0]}\n"]
    for output in OUTPUTS:
        with open_environment(scenario.environment, folder / output, output=output) as environment:
            scenario.play(environment)
            parts.append(f"{f' {output} ':=^100}\n\n{environment.recorder.text}")
    return "\n".join(parts)
