from __future__ import annotations

import pytest

from seamark.errors import NotFoundError, UnreachableError, UsageError
from tests.unit.connectors.operating import W1, W2, OperatedConnect
from tests.unit.fleet.living import open_living_fleet, register

NAME = "org.apache.kafka.connect"


@pytest.fixture
def game():
    return OperatedConnect()


@pytest.fixture
def fleet(tmp_path, game):
    with open_living_fleet(tmp_path, game, urls=(W1, W2)) as opened:
        yield opened


def levels(fleet, **more):
    return [(found.name, found.level, found.workers) for found in fleet.loggers.list(**more).items]


def test_each_level_is_told_with_the_workers_that_have_it(fleet, game):
    game.loggers[W2][NAME] = "DEBUG"
    assert levels(fleet) == [("root", "INFO", (W1, W2)), (NAME, "DEBUG", (W2,))]
    assert [found.is_everywhere for found in fleet.loggers.list().items] == [True, False]
    assert levels(fleet, worker=f"{W1}/") == [("root", "INFO", (W1,))]


def test_a_worker_that_is_away_is_a_failure_not_a_short_list(fleet, game):
    game.away = {W2}
    reading = fleet.loggers.list()
    assert list(reading.failures) == [f"game {W2}"]
    assert [found.workers for found in reading.items] == [(W1,)]


def test_all_workers_are_set_by_one_request_and_undone(fleet, game):
    planned = fleet.loggers.set(NAME, "debug", all_workers=True)
    assert planned.plan.locks == ("loggers.workers",)
    (effect,) = planned.effects
    assert [(found.key, found.before, found.after) for found in effect.fields] == [
        (f"{NAME} on {url}", "INFO", "DEBUG") for url in (W1, W2)
    ]
    result = fleet.apply(planned)
    assert result.is_done
    assert game.calls["set_logger cluster"] == 1
    assert game.loggers == {url: {"root": "INFO", NAME: "DEBUG"} for url in (W1, W2)}
    assert fleet.apply(fleet.undo(result)).is_done
    assert game.loggers == {url: {"root": "INFO", NAME: "INFO"} for url in (W1, W2)}


def test_an_older_cluster_is_set_worker_by_worker(tmp_path):
    game = OperatedConnect(version="3.6.2")
    with open_living_fleet(tmp_path, game, urls=(W1, W2)) as fleet:
        planned = fleet.loggers.set("root", "WARN", all_workers=True)
        assert [step.subject for step in planned.plan.steps] == [f"logger/game/root@{url}" for url in (W1, W2)]
        assert fleet.apply(planned).is_done
    assert game.calls["set_logger worker"] == 2
    assert game.loggers == {W1: {"root": "WARN"}, W2: {"root": "WARN"}}


def test_one_worker_alone_is_set(fleet, game):
    assert fleet.apply(fleet.loggers.set(NAME, "TRACE", workers=[W2])).is_done
    assert (NAME in game.loggers[W1], game.loggers[W2][NAME]) == (False, "TRACE")


def test_a_level_that_is_so_already_is_no_change(fleet):
    assert fleet.loggers.set("root", "INFO", all_workers=True).is_empty


def test_of_several_workers_somebody_must_say_which(fleet, game):
    with pytest.raises(UsageError, match="no worker is selected") as caught:
        fleet.loggers.set("root", "DEBUG")
    assert "--all-workers" in caught.value.hint
    with pytest.raises(UsageError, match="has no worker http://w3:8083"):
        fleet.loggers.set("root", "DEBUG", workers=["http://w3:8083"])
    with pytest.raises(UsageError, match="invalid log level"):
        fleet.loggers.set("root", "LOUD", all_workers=True)
    with pytest.raises(UsageError, match="no logger is given"):
        fleet.loggers.set("", "DEBUG", all_workers=True)
    with pytest.raises(NotFoundError, match="no Connect cluster lake"):
        fleet.loggers.set("root", "DEBUG", cluster="lake", all_workers=True)
    assert game.writes == 0


def test_of_several_clusters_somebody_must_say_which(tmp_path):
    clusters = [OperatedConnect(cluster=name, urls=(W1,)) for name in ("game", "lake")]
    with open_living_fleet(tmp_path, *clusters, urls=(W1,)) as fleet:
        with pytest.raises(UsageError, match="2 Connect clusters"):
            fleet.loggers.set("root", "DEBUG")
        assert fleet.apply(fleet.loggers.set("root", "DEBUG", cluster="lake")).is_done
    assert [found.loggers[W1]["root"] for found in clusters] == ["INFO", "DEBUG"]


def test_a_worker_that_is_away_is_noted_or_refused(fleet, game):
    game.away = {W2}
    planned = fleet.loggers.set("root", "DEBUG", all_workers=True)
    assert any(note.startswith(f"{W2} did not respond") for note in planned.plan.notes)
    with pytest.raises(UnreachableError, match=f"can't read the log levels of {W2}"):
        fleet.loggers.set("root", "DEBUG", workers=[W1, W2])
    game.away = {W1, W2}
    with pytest.raises(UnreachableError, match="can't reach"):
        fleet.loggers.set("root", "DEBUG", all_workers=True)


def test_the_lock_of_a_saved_plan_is_derived(fleet):
    from dataclasses import replace  # noqa: PLC0415

    plan = register(fleet, fleet.loggers.set("root", "DEBUG", all_workers=True).plan)
    assert fleet.review(plan).plan == plan
    assert fleet.review(replace(plan, locks=())).plan == plan
    assert plan.locks
