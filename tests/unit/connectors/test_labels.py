"""Labels of connectors: planned from specs, kept in the journal, never sent to Connect."""

from dataclasses import replace

import pytest

from seamark.changes.plan import read_plan_file
from seamark.connectors.config import DesiredConnector
from seamark.connectors.labels import LabelConnector
from seamark.connectors.model import build_selection, parse_label_term
from seamark.core.files import FileLocation
from seamark.errors import (
    JournalError,
    NotFoundError,
    RefusedError,
    StalePlanError,
    UnreachableError,
    UsageError,
)
from seamark.policy.rules import find_label_fault
from seamark.specs.model import Spec
from tests.fakes.changes.journal_brokers import build_brokers, open_journal
from tests.unit.fleet.living import SOURCE_CONFIG, LivingConnect, open_living_fleet

GAME, SHOP = {"team": "game", "tier": "gold"}, {"team": "shop"}


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch):
    """What runs here runs at once and for good."""
    monkeypatch.setattr("seamark.connectors.run_state._lasts", lambda since, now, seconds: since is not None)


def want(name, labels=None, **changes):
    return DesiredConnector(name, {**SOURCE_CONFIG, **changes}, FileLocation("config/log.yaml", 3), labels=labels or {})


def spec(*connectors, name="logs"):
    return Spec(name, connectors)


def apply(fleet, *connectors, name="logs", **how):
    result = fleet.apply(fleet.plan(spec(*connectors, name=name), **how))
    assert result.is_done
    return result


def read(fleet, *names):
    found = {one.name: one.labels for one in fleet.connectors.read_labels(fleet.connectors.list().items)}
    return found[names[0]] if len(names) == 1 else found


def list_fields(planned):
    return [(field.key, field.before, field.after) for effect in planned.effects for field in effect.fields]


# --- plan, apply, undo


def test_labels_of_a_running_connector_are_set_without_a_request_to_connect(fleet, game):
    game.add("a", SOURCE_CONFIG)
    planned = fleet.plan(spec(want("a", GAME)))
    (effect,) = planned.effects
    assert (effect.sign, effect.words, effect.tasks) == ("~", "labels; no task restarts", 0)
    assert list_fields(planned) == [("labels.team", None, "game"), ("labels.tier", None, "gold")]
    assert fleet.apply(planned).is_done
    assert game.writes == 0
    assert read(fleet, "a") == GAME
    assert "labels" not in game.configs["a"]
    assert fleet.plan(spec(want("a", GAME))).is_empty


def test_a_change_of_labels_is_undone(fleet, game):
    game.add("a", SOURCE_CONFIG)
    apply(fleet, want("a", GAME))
    changed = apply(fleet, want("a", SHOP))
    assert read(fleet, "a") == SHOP
    undo = fleet.undo(changed)
    assert list_fields(undo) == [("labels.team", "shop", "game"), ("labels.tier", None, "gold")]
    assert fleet.apply(undo).is_done
    assert read(fleet, "a") == GAME
    assert game.writes == 0


def test_the_first_labels_are_undone(fleet, game):
    game.add("a", SOURCE_CONFIG)
    fleet.apply(fleet.undo(apply(fleet, want("a", GAME))))
    assert read(fleet, "a") == {}
    # The files still declare them.
    assert list_fields(fleet.plan(spec(want("a", GAME)))) == [
        ("labels.team", None, "game"),
        ("labels.tier", None, "gold"),
    ]


def test_a_new_connector_has_one_line_with_its_labels_and_loses_them_with_the_undo(fleet, game):
    planned = fleet.plan(spec(want("a", GAME)))
    assert [str(effect.sign) for effect in planned.effects] == ["+"]
    assert ("labels.team", None, "game") in list_fields(planned)
    change = fleet.apply(planned)
    assert read(fleet, "a") == GAME
    fleet.apply(fleet.undo(change))
    assert "a" not in game.configs
    game.add("a", SOURCE_CONFIG)
    assert read(fleet, "a") == {}


def test_config_and_labels_change_in_one_line_and_come_back_together(fleet, game):
    game.add("a", SOURCE_CONFIG)
    apply(fleet, want("a", GAME))
    planned = fleet.plan(spec(want("a", SHOP, topic="other")))
    assert len(planned.effects) == 1
    change = fleet.apply(planned)
    assert (read(fleet, "a"), game.configs["a"]["topic"]) == (SHOP, "other")
    fleet.apply(fleet.undo(change))
    assert (read(fleet, "a"), game.configs["a"]["topic"]) == (GAME, SOURCE_CONFIG["topic"])
    assert fleet.plan(spec(want("a", GAME))).is_empty


def test_a_connector_that_leaves_the_files_is_deleted_with_its_labels(fleet, game):
    apply(fleet, want("a", GAME), want("b"))
    planned = fleet.plan(spec(want("b")))
    assert [str(effect.sign) for effect in planned.effects] == ["-"]
    change = fleet.apply(planned)
    game.add("a", SOURCE_CONFIG)
    assert read(fleet, "a") == {}
    del game.configs["a"], game.states["a"]
    fleet.apply(fleet.undo(change))
    assert read(fleet, "a") == GAME


def test_a_connector_that_is_only_labeled_by_a_spec_stays_when_it_leaves_the_files(fleet, game):
    game.add("a", SOURCE_CONFIG)
    apply(fleet, want("a", GAME), want("b"))
    apply(fleet, want("b"))
    assert "a" in game.configs
    assert read(fleet, "a") == {}
    assert fleet.plan(spec(want("b"))).is_empty


def test_labels_that_leave_the_files_are_removed_also_after_an_undo(fleet, game):
    game.add("a", SOURCE_CONFIG)
    apply(fleet, want("a", GAME))
    removed = apply(fleet, want("a"))
    assert read(fleet, "a") == {}
    assert fleet.plan(spec(want("a"))).is_empty
    fleet.apply(fleet.undo(removed))
    assert read(fleet, "a") == GAME
    assert list_fields(fleet.plan(spec(want("a")))) == [("labels.team", "game", None), ("labels.tier", "gold", None)]


def test_destroy_removes_the_labels_too(fleet, game):
    apply(fleet, want("a", GAME))
    assert fleet.apply(fleet.destroy(spec(want("a", GAME)))).is_done
    game.add("a", SOURCE_CONFIG)
    assert read(fleet, "a") == {}


def test_a_plan_by_names_leaves_other_labels_alone(fleet, game):
    for name in ("a", "b"):
        game.add(name, SOURCE_CONFIG)
    apply(fleet, want("a", GAME), want("b", GAME))
    apply(fleet, want("a", SHOP), want("b", SHOP), names=["a"])
    assert read(fleet) == {"a": SHOP, "b": GAME}
    assert {effect.subject for effect in fleet.plan(spec(want("a", SHOP), want("b", SHOP))).effects} == {
        "connector/game/b"
    }


def test_hundreds_of_labels_read_the_journal_a_few_times_and_take_one_lock(fleet, game, monkeypatch):
    connectors = [want(f"c{number}", GAME) for number in range(200)]
    for one in connectors:
        game.add(one.name, SOURCE_CONFIG)
    apply(fleet, want("c0", SHOP))
    planned = fleet.plan(spec(*connectors))
    assert [lock for lock in planned.plan.locks if lock.startswith("labels.")] == ["labels.workers"]
    reads = []
    journal = fleet._find_journal()
    heads = journal.heads
    monkeypatch.setattr(journal, "heads", lambda limit=None: reads.append(limit) or heads(limit=limit))
    assert fleet.apply(planned).is_done
    assert len([limit for limit in reads if limit is None]) <= 2
    assert set(map(len, read(fleet).values())) == {2}


# --- who owns labels


def test_labels_of_another_spec_are_refused_unless_they_are_adopted(fleet, game):
    game.add("a", SOURCE_CONFIG)
    apply(fleet, want("a", GAME))
    with pytest.raises(RefusedError, match="another spec labels or owns") as caught:
        fleet.plan(spec(want("a", SHOP), name="others"))
    assert "game/a: spec logs" in caught.value.cause
    # Without labels in the files, those of another spec stay, and equal labels are no conflict.
    assert fleet.plan(spec(want("a"), name="others")).is_empty
    assert fleet.plan(spec(want("a", GAME), name="others")).is_empty
    apply(fleet, want("a", SHOP), name="others", adopt=True)
    with pytest.raises(RefusedError, match="another spec"):
        fleet.plan(spec(want("a", GAME)))


def test_a_connector_that_another_spec_owns_is_not_labeled(fleet, game):
    apply(fleet, want("a"))
    with pytest.raises(RefusedError, match="another spec labels or owns"):
        fleet.plan(spec(want("a", SHOP), name="others"))


# --- changed since, saved, interrupted


def test_a_plan_of_labels_is_stale_when_another_process_changed_them(fleet, game, tmp_path):
    game.add("a", SOURCE_CONFIG)
    planned = fleet.plan(spec(want("a", GAME)))
    with open_living_fleet(tmp_path, game) as other:
        apply(other, want("a", SHOP))
    with pytest.raises(StalePlanError, match="no changes were made") as caught:
        fleet.apply(planned)
    assert "connector/game/a#labels" in caught.value.cause
    assert read(fleet, "a") == SHOP


def test_an_undo_is_refused_when_the_labels_changed_since(fleet, game):
    game.add("a", SOURCE_CONFIG)
    first = apply(fleet, want("a", GAME))
    apply(fleet, want("a", SHOP))
    with pytest.raises(StalePlanError):
        fleet.undo(first)


def test_a_saved_plan_of_labels_is_applied(fleet, game, tmp_path):
    game.add("a", SOURCE_CONFIG)
    assert fleet.save(fleet.plan(spec(want("a", GAME))), tmp_path / "plan.json") is None
    saved = read_plan_file(tmp_path / "plan.json")
    assert [type(action) for action in saved.actions] == [LabelConnector]
    assert list_fields(fleet.review(saved)) == [("labels.team", None, "game"), ("labels.tier", None, "gold")]
    assert fleet.apply(saved).is_done
    assert read(fleet, "a") == GAME
    # The spec still knows that it has labels.
    assert list_fields(fleet.plan(spec(want("a"))))


def test_without_a_journal_labels_are_not_planned_and_a_note_reports_it(fleet, game, monkeypatch):
    game.add("a", SOURCE_CONFIG)

    def fail():
        raise JournalError("the journal is on another planet")

    monkeypatch.setattr(fleet, "_find_journal", fail)
    monkeypatch.setattr(fleet._world.labels, "_journal", fail)
    planned = fleet.plan(spec(want("a", GAME)))
    assert planned.is_empty
    assert "labels were checked, but will not be set: the journal is on another planet" in planned.plan.notes
    with pytest.raises(JournalError):
        read(fleet, "a")
    assert str(planned).endswith("No changes.\n")
    with pytest.raises(JournalError, match="on another planet"):
        fleet.apply(planned)


def lose_labels(monkeypatch, fleet):
    """Make the labels unreadable, while the rest of the journal is readable."""

    def fail():
        raise UnreachableError("the labels are on another planet")

    monkeypatch.setattr(fleet._world.labels, "_read", fail)


@pytest.mark.parametrize("topic", [SOURCE_CONFIG["topic"], "other"])
def test_apply_fails_if_declared_labels_cannot_be_read(fleet, game, monkeypatch, topic):
    game.add("a", SOURCE_CONFIG)
    lose_labels(monkeypatch, fleet)
    planned = fleet.plan(spec(want("a", GAME, topic=topic)))
    assert planned.plan.notes == ("labels were checked, but will not be set: the labels are on another planet",)
    with pytest.raises(UnreachableError, match="on another planet"):
        fleet.apply(planned)
    assert (game.writes, fleet.journal.list()) == (0, ())


@pytest.mark.parametrize("topic", [SOURCE_CONFIG["topic"], "other"])
def test_a_saved_plan_that_lacks_declared_labels_is_not_applied(fleet, game, monkeypatch, tmp_path, topic):
    game.add("a", SOURCE_CONFIG)
    lose_labels(monkeypatch, fleet)
    error = fleet.save(fleet.plan(spec(want("a", GAME, topic=topic))), tmp_path / "plan.json")
    assert isinstance(error, UnreachableError)
    monkeypatch.undo()
    with pytest.raises(RefusedError, match="only a proposal"):
        fleet.apply(read_plan_file(tmp_path / "plan.json"))
    assert game.writes == 0


def test_labels_that_cannot_be_read_hinder_only_connectors_that_declare_some(fleet, game, monkeypatch):
    for name in ("a", "b"):
        game.add(name, SOURCE_CONFIG)
    apply(fleet, want("a", GAME))
    with monkeypatch.context() as patch:
        lose_labels(patch, fleet)
        apply(fleet, want("a", SHOP), want("b", topic="other"), names=["b"])
        apply(fleet, want("a", topic="other"), want("b", topic="other"))
    # Labels that had left the files meanwhile are removed later.
    assert read(fleet) == {"a": GAME, "b": {}}
    apply(fleet, want("a", topic="other"), want("b", topic="other"))
    assert read(fleet) == {"a": {}, "b": {}}


def test_a_spec_without_labels_does_not_read_them(fleet, game, monkeypatch):
    monkeypatch.setattr(fleet._world.labels, "_read", lambda: pytest.fail("read"))
    apply(fleet, want("a"))
    assert fleet.plan(spec(want("a"))).is_empty


def test_labels_belong_to_a_connect_cluster_not_to_its_name(tmp_path, game):
    game.add("a", SOURCE_CONFIG)
    with open_living_fleet(tmp_path, game) as fleet:
        apply(fleet, want("a", GAME))
    # Another context calls this Connect cluster `lake`, and another one `game`.
    lake, other = LivingConnect(cluster="lake"), LivingConnect(cluster="game")
    for one in (lake, other):
        one.add("a", SOURCE_CONFIG)
    with open_living_fleet(tmp_path, lake, other, groups={"lake": "workers", "game": "others"}) as fleet:
        found = fleet.connectors.read_labels(fleet.connectors.list().items)
    assert {one.owner: one.labels for one in found} == {"lake/a": GAME, "game/a": {}}


@pytest.mark.parametrize("cluster", ["lake", "game"])
def test_labels_in_a_connect_cluster_of_another_context_are_left_alone(tmp_path, game, cluster):
    game.add("a", SOURCE_CONFIG)
    with open_living_fleet(tmp_path, game) as fleet:
        apply(fleet, want("a", GAME))
    # The same spec in a context whose Connect cluster has another name, or the same name and other workers.
    other = LivingConnect(cluster=cluster)
    for name in ("a", "b"):
        other.add(name, SOURCE_CONFIG)
    with open_living_fleet(tmp_path, other, groups={cluster: "others"}) as fleet:
        assert fleet.plan(spec(want("b"))).is_empty
        with pytest.raises(NotFoundError, match="no connector of the spec matches"):
            fleet.plan(spec(want("b")), names=["*/a"])
        planned = fleet.plan(spec(want("b", SHOP)))
        assert {effect.subject for effect in planned.effects} == {f"connector/{cluster}/b"}
        assert fleet.apply(planned).is_done
        assert read(fleet) == {"a": {}, "b": SHOP}
        # The last labels of this context.
        apply(fleet, want("b"))
        assert fleet.plan(spec(want("b"))).is_empty
    with open_living_fleet(tmp_path, game) as fleet:
        assert read(fleet) == {"a": GAME}
        # The last change of the spec was made in the other context, and the spec still knows that it has labels here.
        assert list_fields(fleet.plan(spec(want("a")))) == [
            ("labels.team", "game", None),
            ("labels.tier", "gold", None),
        ]


def test_a_connect_cluster_that_is_not_identified_does_not_hinder_another_one(tmp_path, game, monkeypatch):
    pond, groups = LivingConnect(cluster="pond"), {"game": "workers", "pond": "others"}
    game.add("a", SOURCE_CONFIG)
    pond.add("b", SOURCE_CONFIG)
    wanted = [replace(want("a", GAME), cluster="game"), replace(want("b", GAME), cluster="pond")]
    with open_living_fleet(tmp_path, game, pond, groups=groups) as fleet:
        apply(fleet, *wanted)
    changed = [replace(one, labels=SHOP) for one in wanted]
    with open_living_fleet(tmp_path, game, pond, groups=groups) as fleet:
        identify = type(fleet._identities).identify
        monkeypatch.setattr(
            type(fleet._identities), "identify", lambda self, name: None if name == "pond" else identify(self, name)
        )
        # The pattern matches nothing in pond, although "Kafka" describes its workers.
        planned = fleet.plan(spec(*changed), names=["*a*"])
        assert {effect.subject for effect in planned.effects} == {"connector/game/a"}
        assert fleet.apply(planned).is_done
    monkeypatch.undo()
    with open_living_fleet(tmp_path, game, pond, groups=groups) as fleet:
        assert read(fleet) == {"a": SHOP, "b": GAME}


def test_labels_are_unknown_where_the_connect_cluster_is_not_identified(fleet, game, monkeypatch):
    game.add("a", SOURCE_CONFIG)
    apply(fleet, want("a", GAME))
    monkeypatch.setattr(type(fleet._identities), "identify", lambda self, name: None)
    with pytest.raises(UnreachableError, match="the labels of game/a can't be determined"):
        read(fleet, "a")


def test_the_journal_lists_a_change_of_labels_under_its_connector(fleet, game):
    game.add("a", SOURCE_CONFIG)
    game.add("b", SOURCE_CONFIG)
    change = apply(fleet, want("a", GAME))
    assert [head.change for head in fleet.journal.list(["game/a"])] == [change.change]
    assert fleet.journal.list(["game/b"]) == ()


def test_the_kafka_journal_keeps_labels_too(tmp_path, game):
    brokers = build_brokers()
    for name in ("a", "b"):
        game.add(name, SOURCE_CONFIG)
    with open_living_fleet(tmp_path, game) as fleet:
        fleet._open_journal = lambda context: open_journal(brokers)
        apply(fleet, want("a", GAME), want("b", GAME))
        changed = apply(fleet, want("a", SHOP), want("b", GAME))
    with open_living_fleet(tmp_path, game) as fleet:
        fleet._open_journal = lambda context: open_journal(brokers)
        assert read(fleet) == {"a": SHOP, "b": GAME}
        assert fleet.plan(spec(want("a", SHOP), want("b", GAME))).is_empty
        assert [head.locks for head in fleet.journal.list()] == [("labels.workers/a",), ("labels.workers",)]
        assert fleet.apply(fleet.undo(changed)).is_done
        assert read(fleet) == {"a": GAME, "b": GAME}


def test_a_journal_that_is_not_set_up_is_an_error_with_the_command(fleet, game, monkeypatch):
    game.add("a", SOURCE_CONFIG)

    def fail(limit=None):
        raise NotFoundError("no topic seamark-journal")

    monkeypatch.setattr(fleet._find_journal(), "heads", fail)
    with pytest.raises(JournalError, match="not set up") as caught:
        read(fleet)
    assert "seamark init" in caught.value.hint


# --- selections


@pytest.mark.parametrize(
    ("terms", "names"),
    [
        (["team=game"], ["a", "b"]),
        (["team=game", "tier=gold"], ["a"]),
        (["tier"], ["a"]),
        (["team!=game"], ["c", "d"]),
        (["team", "team!=game"], ["c"]),
        (["team="], []),
    ],
)
def test_labels_select(fleet, game, terms, names):
    for name in "abcd":
        game.add(name, SOURCE_CONFIG)
    apply(fleet, want("a", GAME), want("b", {"team": "game"}), want("c", SHOP), want("d"))
    found = fleet.connectors.read_labels(fleet.connectors.list().items)
    assert [one.name for one in build_selection(labels=terms).pick(found)] == names
    assert build_selection(["a", "c"], labels=terms).pick(found) == tuple(
        one for one in found if one.name in {"a", "c"} & set(names)
    )


def test_a_selection_by_labels_that_were_not_read_selects_nothing_by_mistake(fleet, game):
    game.add("a", SOURCE_CONFIG)
    with pytest.raises(ValueError, match="were not read"):
        build_selection(labels=["team!=game"]).pick(fleet.connectors.list().items)


@pytest.mark.parametrize("text", ["", "=game", "team=a,b", "team=a b", "te am", "team!", "!team", "team=a=b", "-x=y"])
def test_an_invalid_term_is_refused(text):
    with pytest.raises(UsageError, match="for --label"):
        parse_label_term(text)


@pytest.mark.parametrize(
    ("labels", "fault"),
    [
        ({"team": "game", "app.example.com/name": "log_2-a.b", "empty": ""}, ""),
        ({"": "x"}, "invalid key"),
        ({"a=b": "x"}, "invalid key"),
        ({"k" * 64: "x"}, "invalid key"),
        ({"team": "a,b"}, "invalid value of label team"),
        ({"team": "a\n"}, "invalid value of label team"),
        ({"team": "v" * 64}, "invalid value of label team"),
        ({"team": "\x1b[31m"}, "invalid value of label team"),
        ({f"k{number}": "x" for number in range(21)}, "more than 20 labels"),
    ],
)
def test_keys_and_values_are_checked(labels, fault):
    assert find_label_fault(labels)[1].startswith(fault)
    assert bool(find_label_fault(labels)[1]) == bool(fault)
