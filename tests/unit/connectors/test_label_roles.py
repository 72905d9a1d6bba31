"""Roles with labels: what they cover, and that changing labels widens no rights."""

from dataclasses import replace

import pytest

from seamark.changes.identity import ConnectIdentity
from seamark.changes.permissions import build_access
from seamark.connectors.labels import LabelReader
from seamark.core.refs import Ref
from seamark.errors import InvalidSettingError, JournalError, PermissionDeniedError
from seamark.policy.permissions import Permission, build_role
from tests.unit.connectors.test_labels import GAME, SHOP, apply, read, spec, want, without_waiting  # noqa: F401 - fixture
from tests.unit.fleet.living import SOURCE_CONFIG, open_living_fleet

ANA = "User:ana"
EVERYTHING = ("read", "operate", "change-offsets", "change-config", "delete", "administer")
OF_GAME = {"principals": (ANA,), "allow": EVERYTHING, "labels": ("team=game",)}
READS = {"principals": (ANA,), "allow": ("read",)}


@pytest.fixture
def as_ana(tmp_path, game):
    """Open the fleet as User:ana, with these roles and that of reading."""
    opened = []

    def open_as(*roles):
        fleet = open_living_fleet(tmp_path, game)
        named = {f"role-{number}": role for number, role in enumerate((READS, *roles))}
        fleet.context = replace(fleet.context, roles=named)
        fleet.access = replace(build_access(fleet.context), principal=ANA)
        opened.append(fleet)
        return fleet

    yield open_as
    for fleet in opened:
        fleet.close()


@pytest.fixture
def labeled(fleet, game):
    """A connector of the team game, one of the team shop, and one without labels."""
    for name in ("mine", "theirs", "plain"):
        game.add(name, SOURCE_CONFIG)
    apply(fleet, want("mine", GAME), want("theirs", SHOP), want("plain"))
    return fleet


def refused(fleet, planned):
    with pytest.raises(PermissionDeniedError, match="not allowed") as caught:
        fleet.apply(planned)
    return caught.value.cause


def test_a_role_with_labels_covers_connectors_that_have_them(labeled, as_ana, game):
    ana = as_ana(OF_GAME)
    assert ana.apply(ana.connectors.pause("mine")).is_done
    assert refused(ana, ana.connectors.pause("theirs")) == (
        f"operate on connector/game/theirs with labels team=shop: no role of {ANA}"
    )
    assert refused(ana, ana.connectors.pause("plain")) == f"operate on connector/game/plain: no role of {ANA}"
    assert game.states == {"mine": "PAUSED", "theirs": "RUNNING", "plain": "RUNNING"}


def test_a_role_must_match_all_of_its_labels(labeled, as_ana):
    ana = as_ana({**OF_GAME, "labels": ("team=game", "tier=silver")})
    assert "tier=gold" in refused(ana, ana.connectors.pause("mine"))


def test_nothing_else_of_the_context_is_covered_by_a_role_with_labels(labeled, as_ana):
    ana = as_ana(OF_GAME)
    for target in (Ref("topic", "t"), Ref("group", "g"), Ref("pipeline", "p"), Ref("loggers", "game")):
        assert ana.access.find_denied([Permission.ADMINISTER], [target])
    assert ana.access.find_denied([Permission.ADMINISTER], [None])
    assert not ana.access.find_denied([Permission.READ], [None])


def test_a_role_can_not_take_a_connector_that_it_does_not_cover(labeled, as_ana):
    ana = as_ana(OF_GAME)
    for name in ("theirs", "plain", "new"):
        planned = ana.plan(spec(want(name, GAME)), adopt=True, names=[name])
        cause = refused(ana, planned)
        present = " with labels team=shop" if name == "theirs" else ""
        assert f"change-config on connector/game/{name}{present}: no role of {ANA}" in cause
        assert f"connector/game/{name}: the new labels would also allow" in cause
    assert read(ana, "theirs") == SHOP


@pytest.mark.parametrize("labels", [SHOP, {}, {"tier": "gold"}])
def test_a_role_can_not_give_a_connector_away(labeled, as_ana, labels):
    ana = as_ana(OF_GAME)
    assert "change-config on connector/game/mine" in refused(ana, ana.plan(spec(want("mine", labels)), names=["mine"]))
    assert read(ana, "mine") == GAME


def test_a_role_may_change_other_labels_of_its_connectors(labeled, as_ana):
    ana = as_ana(OF_GAME)
    changed = ana.apply(ana.plan(spec(want("mine", {"team": "game", "tier": "silver"})), names=["mine"]))
    assert ana.apply(ana.undo(changed)).is_done
    assert read(ana, "mine") == GAME


def test_labels_that_another_role_of_the_same_user_matches_do_not_widen_its_rights(labeled, as_ana):
    of_silver = {"principals": (ANA,), "allow": ("read", "delete"), "labels": ("tier=silver",)}
    ana = as_ana({**OF_GAME, "allow": ("read", "change-config")}, of_silver)
    silver = {"team": "game", "tier": "silver"}
    cause = refused(ana, ana.plan(spec(want("mine", silver)), names=["mine"]))
    assert cause == "change-config on connector/game/mine: the new labels would also allow delete"
    assert refused(ana, ana.connectors.delete("mine")).startswith("delete on connector/game/mine")


def test_a_user_who_may_change_both_teams_may_move_a_connector(labeled, as_ana):
    ana = as_ana(OF_GAME, {**OF_GAME, "labels": ("team=shop",)})
    assert ana.apply(ana.plan(spec(want("mine", SHOP)), names=["mine"])).is_done
    assert read(ana, "mine") == SHOP


def test_an_undo_is_checked_as_any_change_of_labels(labeled, as_ana):
    moved = apply(labeled, want("theirs", GAME), names=["theirs"])
    ana = as_ana(OF_GAME)
    assert "with labels team=shop" in refused(ana, ana.undo(moved))
    assert read(labeled, "theirs") == GAME


def test_a_plan_that_was_made_before_the_labels_changed_is_checked_with_the_present_ones(labeled, as_ana):
    ana = as_ana(OF_GAME)
    planned = ana.connectors.pause("mine")
    apply(labeled, want("mine", SHOP), names=["mine"])
    assert "with labels team=shop" in refused(ana, planned)


def test_a_plan_is_not_saved_either(labeled, as_ana, tmp_path):
    ana = as_ana(OF_GAME)
    error = ana.save(ana.connectors.pause("theirs"), tmp_path / "plan.json")
    assert isinstance(error, PermissionDeniedError)


def test_where_the_journal_can_not_be_read_a_role_with_labels_allows_nothing(labeled, as_ana, monkeypatch):
    ana = as_ana(OF_GAME)
    planned = ana.connectors.pause("mine")

    def fail(self):
        raise JournalError("the journal is on another planet")

    monkeypatch.setattr(LabelReader, "_read", fail)
    cause = refused(ana, planned)
    assert "connector/game/mine, whose labels are unknown" in cause
    assert cause.endswith("labels can't be read: the journal is on another planet")


def test_a_role_without_labels_does_not_read_them(labeled, as_ana, monkeypatch):
    ana = as_ana({**OF_GAME, "labels": ()})
    monkeypatch.setattr(LabelReader, "_read", lambda self: pytest.fail("read"))
    assert ana.apply(ana.connectors.pause("plain")).is_done


def test_a_connector_in_a_cluster_of_the_same_name_elsewhere_is_not_covered(labeled, as_ana, monkeypatch):
    ana = as_ana(OF_GAME)
    planned = ana.connectors.pause("mine")
    monkeypatch.setattr(type(ana._identities), "identify", lambda self, name: ConnectIdentity("other-kafka", "workers"))
    assert "connector/game/mine: no role" in refused(ana, planned)


@pytest.mark.parametrize("labels", ["team", "team=a b", "=x", "te,am=x"])
def test_an_invalid_label_of_a_role_is_an_error(labels):
    texts = {**OF_GAME, "labels": (labels,)}
    if labels == "team":
        # An empty value is valid, as in spec files.
        assert build_role("some", texts).labels == (("team", ""),)
    else:
        with pytest.raises(InvalidSettingError, match="label"):
            build_role("some", texts)
