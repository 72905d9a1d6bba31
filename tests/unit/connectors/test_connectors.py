"""Reading connectors over several clusters."""

import pytest

from seamark.errors import NotFoundError, PartialError, UnreachableError, UsageError
from tests.unit.fleet.builders import StubConnect, connector, open_stub_fleet


def test_all_reads_every_cluster_once_and_sorts_by_name():
    game = StubConnect(connectors=(connector("b"), connector("a")))
    lake = StubConnect(connectors=(connector("c", cluster="lake"),))
    reading = open_stub_fleet({"game": game, "lake": lake}).connectors.list()
    assert [found.owner for found in reading] == ["game/a", "game/b", "lake/c"]
    assert reading.is_complete
    assert game.calls == lake.calls == {"connectors": 1}


def test_a_silent_cluster_is_a_failure_beside_the_items():
    error = UnreachableError("nobody answers")
    clients = {"game": StubConnect(connectors=(connector("a"),)), "lake": StubConnect(connectors=error)}
    reading = open_stub_fleet(clients).connectors.list()
    assert [found.name for found in reading] == ["a"]
    assert reading.failures == {"lake": error}
    with pytest.raises(PartialError, match="lake did not respond"):
        reading.require_complete(what="connectors")


def test_all_of_one_cluster_asks_no_other():
    game, lake = StubConnect(connectors=(connector("a"),)), StubConnect()
    reading = open_stub_fleet({"game": game, "lake": lake}).connectors.list(cluster="game")
    assert len(reading) == 1
    assert not lake.calls


def test_an_unknown_cluster_is_refused_with_the_known_ones():
    with pytest.raises(NotFoundError) as caught:
        open_stub_fleet({"game": StubConnect()}).connectors.list(cluster="gmae")
    assert caught.value.cause == "it has: game"


def test_one_by_name_and_by_owner():
    clients = {"game": StubConnect(connectors=(connector("a"),)), "lake": StubConnect()}
    connectors = open_stub_fleet(clients).connectors
    assert connectors.get("a").owner == connectors.get("game/a").owner == "game/a"


def test_a_name_in_two_clusters_names_both():
    clients = {
        "game": StubConnect(connectors=(connector("a"),)),
        "lake": StubConnect(connectors=(connector("a", cluster="lake"),)),
    }
    connectors = open_stub_fleet(clients).connectors
    with pytest.raises(UsageError) as caught:
        connectors.get("a")
    assert caught.value.cause == "game/a, lake/a"
    assert connectors.get("lake/a").cluster == "lake"


def test_a_silent_cluster_may_hold_the_same_name_so_nothing_is_guessed():
    clients = {
        "game": StubConnect(connectors=(connector("a"),)),
        "lake": StubConnect(connectors=UnreachableError("nobody answers")),
    }
    connectors = open_stub_fleet(clients).connectors
    with pytest.raises(PartialError) as caught:
        connectors.get("a")
    assert caught.value.hint == "name the Connect cluster, as in game/a"
    assert connectors.get("game/a").name == "a"


def test_the_only_cluster_being_silent_gives_its_own_reason():
    with pytest.raises(UnreachableError, match="nobody answers"):
        open_stub_fleet({"game": StubConnect(connectors=UnreachableError("nobody answers"))}).connectors.get("a")


def test_an_absent_name_says_where_was_looked():
    with pytest.raises(NotFoundError) as caught:
        open_stub_fleet({"game": StubConnect(), "lake": StubConnect()}).connectors.get("a")
    assert caught.value.cause == "Connect clusters searched: game, lake"


def test_a_slash_in_a_name_is_no_cluster():
    clients = {"game": StubConnect(connectors=(connector("team/a"),))}
    assert open_stub_fleet(clients).connectors.get("team/a").name == "team/a"


def test_an_empty_owner_is_refused():
    with pytest.raises(UsageError):
        open_stub_fleet({"game": StubConnect()}).connectors.get("")
