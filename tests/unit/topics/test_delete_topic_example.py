"""The example that deletes a topic, on brokers in memory."""

from __future__ import annotations

import runpy
from pathlib import Path

import seamark
from tests.unit.changes.brokers import FakeBrokers
from tests.unit.fleet.living import LivingConnect, open_living_fleet

EXAMPLE = Path(__file__).parents[3] / "examples" / "delete_topic.py"


def test_the_example_lists_all_topics_and_deletes_one(tmp_path, monkeypatch, capsys):
    brokers = FakeBrokers()
    brokers.add_topic("old", records=3)
    brokers.add_topic("other")
    monkeypatch.setattr(seamark, "open", lambda name: open_living_fleet(tmp_path, LivingConnect(), brokers=brokers))
    runpy.run_path(str(EXAMPLE))["main"]("old")
    assert list(brokers.topics) == ["other"]
    said = capsys.readouterr().out
    assert "old 3 300\nother 0 0\n" in said
    assert "- topic/old   delete: 3 records in 1 partition, permanently" in said
    assert "\ndone " in said
