"""Applying plans and taking them back, with a real journal in a folder."""

import dataclasses
import hashlib
import itertools
import json
import stat

import pytest

from seamark.changes.actor import Actor
from seamark.changes.journal import Ending, EntryKind
from seamark.changes.outcome import Outcome
from seamark.changes.plan import FORMAT_VERSION, Plan, find_hidden, read_plan_file
from seamark.errors import (
    LockedError,
    NotFoundError,
    RefusedError,
    RejectedError,
    StalePlanError,
    UnknownOutcomeError,
    UsageError,
)
from tests.unit.fleet.living import SOURCE_CONFIG, LivingConnect, open_living_fleet, register

PASSWORD = "hunter2-canary"


def snapshot(game):
    return json.dumps([game.configs, game.states], sort_keys=True)


VERBS = {
    "create": lambda connectors: connectors.create("new", SOURCE_CONFIG, state="PAUSED"),
    "change": lambda connectors: connectors.update("a", SOURCE_CONFIG | {"file": "/other", "extra": "1"}),
    "set": lambda connectors: connectors.set("a", {"tasks.max": "3", "topic": None}),
    "delete": lambda connectors: connectors.delete(["a", "b"]),
    "pause": lambda connectors: connectors.pause("a"),
    "resume": lambda connectors: connectors.resume("b"),
    "stop": lambda connectors: connectors.stop(["a", "b"]),
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_applied_and_undone_byte_for_byte(fleet, game, verb):
    game.add("a", SOURCE_CONFIG)
    game.add("b", SOURCE_CONFIG, state="STOPPED")
    before = snapshot(game)
    result = fleet.apply(VERBS[verb](fleet.connectors))
    assert result.is_done
    assert all(step.outcome is Outcome.DONE for step in result.steps)
    after = snapshot(game)
    assert after != before
    undone = fleet.apply(fleet.undo(result))
    assert undone.is_done
    assert snapshot(game) == before
    # The way back has a way back of its own.
    assert fleet.apply(fleet.undo(undone.change)).is_done
    assert snapshot(game) == after
    assert [head.title for head in fleet.journal.list()][-1] == result.title
    assert not fleet.journal.list(only_open=True)


def test_restart_is_applied_and_leaves_nothing_to_undo(fleet, game):
    game.add("a", SOURCE_CONFIG | {"tasks.max": "2"}, failed=[1])
    result = fleet.apply(fleet.connectors.restart("a"))
    assert result.is_done
    assert game.failed_tasks["a"] == set()
    assert fleet.undo(result).is_empty


def test_an_empty_plan_touches_not_even_the_journal(fleet, game, tmp_path):
    game.add("a", SOURCE_CONFIG, state="PAUSED")
    result = fleet.apply(fleet.connectors.pause("a"))
    assert (result.change, result.ending) == ("", Ending.DONE)
    assert not (tmp_path / "journal").exists()


def test_one_failure_leaves_the_other_lanes_alone(fleet, game):
    for name in "abc":
        game.add(name, SOURCE_CONFIG)
    game.failing["pause", "b"] = RejectedError("no")
    result = fleet.apply(fleet.connectors.pause(["a", "b", "c"]))
    assert result.ending is Ending.PARTLY
    assert set(result.failures) == {"connector/game/b"}
    assert game.states == {"a": "PAUSED", "b": "RUNNING", "c": "PAUSED"}
    fleet.apply(fleet.undo(result))
    assert set(game.states.values()) == {"RUNNING"}


def test_a_plan_is_stale_when_the_world_has_moved(fleet, game):
    game.add("a", SOURCE_CONFIG)
    planned = fleet.connectors.set("a", {"tasks.max": "2"})
    game.configs["a"]["file"] = "/somebody/else"
    with pytest.raises(StalePlanError, match="no changes were made") as caught:
        fleet.apply(planned)
    assert "connector/game/a#config" in caught.value.cause
    assert game.writes == 0


def test_an_undo_is_stale_when_somebody_changed_it_since(fleet, game):
    game.add("a", SOURCE_CONFIG)
    result = fleet.apply(fleet.connectors.set("a", {"tasks.max": "2"}))
    game.configs["a"]["tasks.max"] = "7"
    with pytest.raises(StalePlanError):
        fleet.undo(result)


def test_the_journal_holds_no_secret(fleet, game, tmp_path):
    secrets = {"db.password": PASSWORD, "url": f"jdbc:x://h/d?user=u&password={PASSWORD}"}
    game.add("a", SOURCE_CONFIG | secrets)
    result = fleet.apply(fleet.connectors.set("a", {"tasks.max": "2"}))
    stored = b"".join(path.read_bytes() for path in (tmp_path / "journal").rglob("*") if path.is_file())
    assert b"tasks.max" in stored
    assert PASSWORD.encode() not in stored
    assert fleet.journal.export(result.change).count("hmac-sha256:") >= 2
    fleet.apply(fleet.undo(result))
    assert game.configs["a"] == {"name": "a", **SOURCE_CONFIG, **secrets}


def test_a_reference_is_revealed_for_connect_alone(fleet, game, tmp_path, monkeypatch):
    monkeypatch.setenv("DB_PASSWORD", PASSWORD)
    planned = fleet.connectors.create("a", SOURCE_CONFIG | {"secretive": "secret://env/DB_PASSWORD"})
    assert PASSWORD not in str(planned) + json.dumps(planned.plan.to_dict())
    fleet.apply(planned)
    assert game.configs["a"]["secretive"] == PASSWORD
    stored = b"".join(path.read_bytes() for path in (tmp_path / "journal").rglob("*") if path.is_file())
    assert PASSWORD.encode() not in stored


def test_an_unknown_end_leaves_the_change_open_and_resume_finishes_it(fleet, game, monkeypatch):
    game.add("a", SOURCE_CONFIG)
    unknown = UnknownOutcomeError("no answer")

    def vanish():
        # The worker took the request, and can't be asked about it afterwards.
        game.states["a"] = "PAUSED"
        game.failing["read_status", "a"] = RejectedError("not now")
        raise unknown

    planned = fleet.connectors.pause("a")
    game.before["pause", "a"] = vanish
    clock = fleet._world.clock
    monkeypatch.setattr(type(clock), "sleep", lambda self, seconds: None)
    times = itertools.count(0, 0.4)
    began_at = clock.now()
    monkeypatch.setattr(type(clock), "now", lambda self: began_at + next(times))
    result = fleet.apply(planned)
    assert result.ending is None
    (head,) = fleet.journal.list(only_open=True)
    assert head.change == result.change
    with pytest.raises(RefusedError, match="still open"):
        fleet.undo(result)
    game.failing.clear()
    assert fleet.journal.resume(result.change).is_done
    assert game.calls["pause"] == 1
    fleet.apply(fleet.undo(result))
    assert game.states["a"] == "RUNNING"


def open_change(tmp_path, game, name="a"):
    """A change that somebody else has open."""
    with open_living_fleet(tmp_path, game, actor=Actor("other@host:1")) as other:
        planned = other.connectors.pause(name)
        game.before["pause", name] = _die
        with pytest.raises(_DiedError):
            other.apply(planned)
        (head,) = other.journal.list(only_open=True)
        return head


class _DiedError(BaseException):
    """Stands for the end of a process."""


def _die():
    raise _DiedError


def test_a_second_operator_is_refused_while_a_change_is_open(tmp_path, fleet, game):
    game.add("a", SOURCE_CONFIG)
    game.add("b", SOURCE_CONFIG)
    head = open_change(tmp_path, game)
    with pytest.raises(LockedError) as caught:
        fleet.apply(fleet.connectors.stop("a"))
    assert head.change in caught.value.message
    assert game.states["a"] == "RUNNING"
    assert fleet.apply(fleet.connectors.stop("b")).is_done


def test_unlock_needs_the_nonce_of_the_holder_and_closes_as_it_is(tmp_path, fleet, game, monkeypatch):
    game.add("a", SOURCE_CONFIG)
    head = open_change(tmp_path, game)
    with pytest.raises(LockedError):
        fleet.journal.unlock(head.change, nonce="wrong")
    clock = fleet._world.clock
    monkeypatch.setattr(type(clock), "sleep", lambda self, seconds: None)
    later = clock.now() + 3600
    times = iter(range(10**6))
    monkeypatch.setattr(type(clock), "now", lambda self: later + next(times))
    result = fleet.journal.unlock(head.change, nonce=head.nonce)
    assert result.ending is Ending.FAILED
    assert fleet.journal.show(head.change)[-1].kind is EntryKind.CLOSE
    assert fleet.undo(head.change).is_empty
    assert game.states["a"] == "RUNNING"


def test_a_change_sealed_with_another_key_is_refused_by_its_name(tmp_path, fleet, game):
    game.add("a", SOURCE_CONFIG | {"db.password": PASSWORD})
    result = fleet.apply(fleet.connectors.set("a", {"tasks.max": "2"}))
    key = tmp_path / "state" / "journal.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    key.write_text("ab" * 32)
    # The record of the journal's key refuses this first.
    (tmp_path / "journal" / "key").unlink()
    with open_living_fleet(tmp_path, game) as other, pytest.raises(RefusedError) as caught:
        other.undo(result)
    assert "with another journal key" in caught.value.message
    assert "as a further line" in caught.value.hint


def test_entries_can_be_shown_and_exported(fleet, game):
    game.add("a", SOURCE_CONFIG)
    result = fleet.apply(fleet.connectors.pause("a"))
    entries = fleet.journal.show(result.change[:12])
    assert [entry.kind for entry in entries] == ["open", "intent", "outcome", "close"]
    exported = fleet.journal.export(result.change).splitlines()
    assert [json.loads(text)["number"] for text in exported] == [0, 1, 2, 3]
    with pytest.raises(NotFoundError):
        fleet.journal.show("00000000000000000000000000")


# --- saved plans


def saved(fleet, planned, tmp_path):
    path = tmp_path / "plan.json"
    assert fleet.save(planned, path) is None
    return path


def test_a_saved_plan_is_private_and_applies_later(fleet, game, tmp_path):
    game.add("a", SOURCE_CONFIG | {"db.password": PASSWORD})
    path = saved(fleet, fleet.connectors.set("a", {"tasks.max": "2"}), tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert PASSWORD not in path.read_text()
    plan = read_plan_file(path)
    reviewed = fleet.review(register(fleet, plan))
    assert reviewed.effects[0].words == "restarts 1 task"
    assert fleet.apply(plan).is_done
    assert game.configs["a"]["tasks.max"] == "2"
    assert game.configs["a"]["db.password"] == PASSWORD
    with pytest.raises(StalePlanError):
        fleet.review(register(fleet, plan))


def test_a_saved_plan_without_its_secrets_is_refused_before_anything(fleet, game, tmp_path):
    planned = fleet.connectors.create("a", SOURCE_CONFIG | {"db.password": PASSWORD})
    assert find_hidden(planned.plan) == ("connector/game/a db.password",)
    with pytest.raises(RefusedError, match="doesn't contain the secrets that it needs"):
        fleet.apply(read_plan_file(saved(fleet, planned, tmp_path)))
    assert game.writes == 0
    assert fleet.apply(planned).is_done


def test_a_plan_of_another_cluster_is_refused(fleet, game, tmp_path):
    game.add("a", SOURCE_CONFIG)
    planned = fleet.connectors.pause("a")
    identity = planned.plan.identity
    other = dataclasses.replace(identity.connect["game"], group="other-workers")
    for changed, said in (
        (dataclasses.replace(identity, kafka_cluster_id="kafka-2"), "another Kafka cluster"),
        (dataclasses.replace(identity, connect={"game": other}), "another Connect cluster"),
        (dataclasses.replace(identity, connect={}), "doesn't identify the clusters"),
    ):
        foreign = dataclasses.replace(planned.plan, identity=changed)
        with pytest.raises(RefusedError, match=said):
            fleet.review(register(fleet, foreign))
        with pytest.raises(RefusedError, match=said):
            fleet.apply(dataclasses.replace(planned, plan=foreign))
    assert game.writes == 0


def test_undo_under_another_context_is_refused_and_touches_neither_connect_cluster(fleet, game, tmp_path):
    game.add("a", SOURCE_CONFIG)
    change = fleet.apply(fleet.connectors.pause("a")).change
    # The same journal and the same nickname, and another Connect cluster whose connector looks as the change left it.
    elsewhere = LivingConnect()
    elsewhere.add("a", SOURCE_CONFIG, state="PAUSED")
    writes = game.writes
    with open_living_fleet(tmp_path, elsewhere, group_id="other-workers") as other:
        object.__setattr__(other.context, "name", "prod")
        with pytest.raises(RefusedError):
            other.undo(change)
    assert (game.writes, elsewhere.writes) == (writes, 0)
    assert fleet.apply(fleet.undo(change)).is_done


def test_undo_of_what_someone_else_has_undone_is_refused(fleet, game):
    game.add("a", SOURCE_CONFIG)
    change = fleet.apply(fleet.connectors.set("a", {"tasks.max": "3"})).change
    # It is as the undo would leave it, but not as the change left it: it belongs to someone else now.
    game.configs["a"]["tasks.max"] = "1"
    with pytest.raises(StalePlanError):
        fleet.undo(change)


def test_a_plan_without_its_preconditions_is_refused(fleet, game):
    game.add("a", SOURCE_CONFIG)
    plan = dataclasses.replace(fleet.connectors.pause("a").plan, preconditions=())
    with pytest.raises(RefusedError, match="lacks preconditions for what it changes"):
        fleet.review(register(fleet, plan))
    assert game.writes == 0


def test_steps_and_locks_are_derived_and_not_in_the_file(fleet, game, tmp_path):
    game.add("a", SOURCE_CONFIG)
    planned = fleet.connectors.pause("a")
    path = saved(fleet, planned, tmp_path)
    body = json.loads(path.read_text())
    assert not {"steps", "locks", "step_counts"} & body.keys()
    reviewed = fleet.review(read_plan_file(path))
    assert (reviewed.plan.steps, reviewed.plan.locks) == (planned.plan.steps, planned.plan.locks)
    assert reviewed.plan.locks


@pytest.mark.parametrize(
    "edit",
    [
        lambda body: body["actions"][0].update(state="STOPPED"),
        lambda body: body["actions"][0].update(name="b"),
        lambda body: body["actions"].append(body["actions"][0]),
        lambda body: body.update(notes=["trust me"]),
        lambda body: body.update(locks=[]),
        lambda body: body.update(steps=[]),
        lambda body: body.pop("sha256"),
    ],
)
def test_an_edited_plan_file_is_refused(fleet, game, tmp_path, edit):
    game.add("a", SOURCE_CONFIG)
    path = saved(fleet, fleet.connectors.pause("a"), tmp_path)
    body = json.loads(path.read_text())
    edit(body)
    path.write_text(json.dumps(body))
    with pytest.raises(RefusedError, match="was edited"):
        read_plan_file(path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("steps", [{"kind": "delete-connector", "subject": "connector/game/b", "arguments": {"cluster": "game"}}]),
        ("locks", ["data.other"]),
        ("step_counts", [1]),
    ],
)
def test_a_plan_file_with_derived_fields_is_refused_whatever_its_hash(fleet, game, tmp_path, key, value):
    game.add("a", SOURCE_CONFIG)
    path = saved(fleet, fleet.connectors.pause("a"), tmp_path)
    body = {**json.loads(path.read_text()), key: value}
    del body["sha256"]
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    path.write_text(json.dumps({**body, "sha256": hashlib.sha256(text.encode()).hexdigest()}))
    with pytest.raises(RefusedError, match="was edited"):
        read_plan_file(path)


def test_a_plan_whose_label_lies_shows_what_it_does(fleet, game):
    game.add("a", SOURCE_CONFIG)
    game.add("b", SOURCE_CONFIG)
    plan = fleet.connectors.pause("b").plan
    lying = dataclasses.replace(plan, title="pause a", notes=("only a is paused",))
    assert [effect.subject for effect in fleet.review(register(fleet, lying)).effects] == ["connector/game/b"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "it is not JSON"),
        ("[]", "it is not a JSON object"),
        (f'{{"format_version": {FORMAT_VERSION}}}', "KeyError"),
    ],
)
def test_what_is_no_plan_is_refused(tmp_path, text, said):
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_plan_file(path)
    assert said in caught.value.cause


def test_a_plan_with_a_strange_step_is_refused(fleet, game, tmp_path):
    game.add("a", SOURCE_CONFIG)
    body = fleet.connectors.pause("a").plan.to_dict()
    body["actions"][0]["os"] = "rm"
    with pytest.raises(UsageError, match="os"):
        Plan.from_dict(body)
    with pytest.raises(UsageError, match="unknown action 'teleport'"):
        Plan.from_dict({**body, "actions": [{"action": "teleport"}]})
    with pytest.raises(UsageError, match="can't be read"):
        read_plan_file(tmp_path / "not-there.json")
