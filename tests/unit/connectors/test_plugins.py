from __future__ import annotations

from seamark.connect.model import Plugin
from seamark.connect.plugins import build_fleet_plugins
from seamark.errors import UnsupportedError
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


def test_class_that_converts_values_and_headers_is_compared_by_type():
    value, header = Plugin("j.Json", "converter", "1"), Plugin("j.Json", "header_converter", "1")
    other = Plugin("s.Simple", "header_converter", "1")
    found = build_fleet_plugins("game", {W1: [value, header, other], W2: [value, other]})
    assert [(one.class_name, one.type, one.missing) for one in found] == [
        ("j.Json", "converter", ()),
        ("j.Json", "header_converter", (W2,)),
        ("s.Simple", "header_converter", ()),
    ]


def test_connectors_are_listed_before_other_types():
    kinds = ("header_converter", "converter", "predicate", "transformation", "source", "sink")
    found = build_fleet_plugins("game", {W1: [Plugin(f"{9 - n}.P", kind) for n, kind in enumerate(kinds)]})
    assert [one.type for one in found] == [
        "sink",
        "source",
        "transformation",
        "predicate",
        "converter",
        "header_converter",
    ]


def test_types_that_an_old_worker_does_not_list_are_not_reported_as_missing():
    told = {
        W1: [Plugin("a.A", "source", "1"), Plugin("j.Json", "converter", "1")],
        W2: [Plugin("a.A", "source", "1")],
    }
    assert [one.class_name for one in build_fleet_plugins("game", told)] == ["a.A"]


def test_requested_types_that_an_old_cluster_can_not_list_are_a_failure(tmp_path):
    game = OperatedConnect(version="3.1.0")
    with open_living_fleet(tmp_path, game, urls=(W1, W2)) as fleet:
        reading = fleet.connectors.plugins(types=["source", "predicate"])
        assert fleet.connectors.plugins(types=["sink"]).is_complete
    assert [found.class_name for found in reading.items] == [SOURCE]
    assert isinstance(reading.failures["game"], UnsupportedError)
    assert "a worker runs 3.1.0" in reading.failures["game"].cause


def test_a_worker_that_is_away_lacks_nothing_but_is_told(tmp_path):
    game = OperatedConnect()
    game.away = {W2}
    with open_living_fleet(tmp_path, game, urls=(W1, W2)) as fleet:
        reading = fleet.connectors.plugins(cluster="game")
    assert list(reading.failures) == [f"game {W2}"]
    assert all(found.is_everywhere for found in reading.items)
