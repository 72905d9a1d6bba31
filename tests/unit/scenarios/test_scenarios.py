"""Each scenario prints what was recorded."""

from __future__ import annotations

import pytest

from tests.unit.scenarios.environment import PASSWORD
from tests.unit.scenarios.playing import play
from tests.unit.scenarios.registry import RECORDED, read_scenarios

SCENARIOS = read_scenarios()


@pytest.mark.parametrize("name", SCENARIOS)
def test_outputs_are_as_recorded(name, tmp_path):
    found = SCENARIOS[name]
    assert found.recording.exists(), f"record it: python -m tests.unit.scenarios record {name}"
    assert play(found, tmp_path).splitlines() == found.recording.read_text().splitlines()


def test_every_recording_belongs_to_a_scenario():
    assert {path.stem for path in RECORDED.glob("*.txt")} == set(SCENARIOS)


def test_no_recording_contains_a_secret():
    assert not [path.name for path in RECORDED.glob("*.txt") if PASSWORD in path.read_text()]
