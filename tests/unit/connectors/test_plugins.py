from __future__ import annotations

from seamark.connect.model import Plugin
from seamark.connect.plugins import build_fleet_plugins
from tests.unit.connectors.operating import W1, W2, OperatedConnect
from tests.unit.fleet.living import SINK, SOURCE, open_living_fleet


def test_plugins_that_all_workers_share_are_everywhere(tmp_path):
    with open_living_fleet(tmp_path, OperatedConnect(), urls=(W1, W2)) as fleet:
        reading = fleet.connectors.plugins()
    assert [(found.class_name, found.type, found.version, found.workers) for found in reading.items] == [
        (SINK, "sink", "4.3.1", (W1, W2)),
        (SOURCE, "source", "4.3.1", (W1, W2)),
    ]
    assert all(found.is_everywhere for found in reading.items)
    assert reading.is_complete


def test_a_plugin_that_is_missing_or_of_another_version_is_told_by_worker():
    told = {
        W1: [Plugin("a.A", "source", "1"), Plugin("b.B", "sink", "2"), Plugin("c.C", "sink", "1")],
        W2: [Plugin("b.B", "sink", "3"), Plugin("b.B", "sink", "4"), Plugin("c.C", "sink", "1")],
    }
    found = {(one.class_name, one.version): one for one in build_fleet_plugins("game", told)}
    assert found["a.A", "1"].missing == (W2,)
    assert found["b.B", "2"].others == ((W2, "3+4"),)
    assert found["b.B", "3"].others == ((W1, "2"),)
    assert [key for key, one in found.items() if one.is_everywhere] == [("c.C", "1")]


def test_a_worker_that_is_away_lacks_nothing_but_is_told(tmp_path):
    game = OperatedConnect()
    game.away = {W2}
    with open_living_fleet(tmp_path, game, urls=(W1, W2)) as fleet:
        reading = fleet.connectors.plugins(cluster="game")
    assert list(reading.failures) == [f"game {W2}"]
    assert all(found.is_everywhere for found in reading.items)
