"""A cut-over under the same name: the topic is deleted, made anew and filled from its copy."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest

from seamark.changes.interruption import set_hook
from seamark.changes.recovery import Recovery
from seamark.cli.confirm import build_errors
from seamark.errors import RefusedError, RejectedError, UnknownOutcomeError, UnreachableError
from tests.unit.copies.harbour import Harbour

OLD = {"lake": {"topics": "orders,other"}, "shop": {"topic": "orders"}}


@pytest.fixture
def harbour(tmp_path):
    found = Harbour(tmp_path)
    delete = found.brokers.delete_topic

    def delete_with_commits(name):
        delete(name)
        # As the brokers do.
        for group in found.brokers.groups.values():
            group.offsets = {spot: at for spot, at in group.offsets.items() if spot[0] != name}

    found.brokers.delete_topic = delete_with_commits
    return found


def test_topic_is_made_anew_and_readers_go_on_in_it(harbour):
    old = harbour.brokers.topics["orders"].id
    result = harbour.apply(harbour.plan(harbour.build_in_place()))
    assert str(result.ending) == "done", [step.error for step in result.steps if step.error]
    assert harbour.log == [
        "approach", "stop lake", "stop shop", "catch up", "verify standard", "begin back", "catch up back",
        "verify standard", "start lake", "start shop",
    ]  # fmt: skip
    made = harbour.brokers.topics["orders"]
    # What holds for a while is taken back, and what the topic has of its own stays.
    assert (made.id != old, len(made.logs), made.configs) == (True, 1, {"segment.bytes": "7"})
    assert harbour.configs == OLD
    assert harbour.commits["connect-lake"] == {("orders-1", 0): 14, ("orders", 0): 15}
    assert harbour.commits["report"] == {("orders-1", 0): 3, ("orders", 0): 4}
    # The temporary copy stays until somebody says that it may go.
    assert len(harbour.brokers.topics["orders-1"].logs[0]) == 21


def test_failure_before_the_delete_leaves_everybody_where_they_were(harbour):
    harbour.proof = "3 records are lost"
    old = harbour.brokers.topics["orders"].id
    harbour.apply(harbour.plan(harbour.build_in_place()))
    assert harbour.brokers.topics["orders"].id == old
    assert harbour.states == {"lake": "RUNNING", "shop": "RUNNING"}


def test_nobody_starts_on_a_topic_that_is_not_whole_and_resume_finishes_it(harbour):
    harbour.failing["catch up back"] = UnreachableError("no Spark")
    result = harbour.apply(harbour.plan(harbour.build_in_place()))
    assert result.ending is None
    assert harbour.states == {"lake": "STOPPED", "shop": "STOPPED"}
    assert any("is incomplete" in step.error.message for step in result.steps if step.error)
    again = harbour.resume_change(result.change)
    assert harbour.states == {"lake": "RUNNING", "shop": "RUNNING"}, [s.error for s in again.steps if s.error]
    assert harbour.commits["connect-lake"]["orders", 0] == 15


def test_killed_between_delete_and_create_is_resumed(harbour):
    class Kill(BaseException):
        pass

    def die(*_, **__):
        harbour.brokers.create_topic = create
        raise Kill

    create, harbour.brokers.create_topic = harbour.brokers.create_topic, die
    with pytest.raises(Kill):
        harbour.apply(harbour.plan(harbour.build_in_place()))
    assert "orders" not in harbour.brokers.topics
    harbour.sleep(1000)
    result = harbour.resume_change(harbour.open_change)
    assert str(result.ending) == "done"
    assert harbour.states == {"lake": "RUNNING", "shop": "RUNNING"}
    with pytest.raises(RefusedError) as caught:
        harbour.undo(result.change)
    assert "its records are deleted" in caught.value.cause


def interrupt(harbour, plan, kind):
    """Apply, with Ctrl-C after the last step of a kind."""
    last = max(number for number, step in enumerate(plan.steps) if step.kind == kind)

    def reach(point, number):
        if (point, number) == ("after-outcome", last):
            signal.raise_signal(signal.SIGINT)

    set_hook(reach)
    try:
        return harbour.apply(plan)
    finally:
        set_hook(None)


AFTER_DELETE = ["delete-topic", "create-topic", "register-copy-back", "translate-group-back"]


@pytest.mark.parametrize("state", ["RUNNING", "STOPPED"])
@pytest.mark.parametrize("kind", AFTER_DELETE)
def test_ctrl_c_after_the_delete_keeps_the_change_open_and_resume_finishes_it(harbour, kind, state):
    harbour.states = dict.fromkeys(harbour.states, state)
    harbour.approach = lambda _: "nothing new"
    result = interrupt(harbour, harbour.plan(harbour.build_in_place()), kind)
    assert result.ending is None
    assert {*result.left} <= {*result.owed}
    (error,) = build_errors(replace(result, steps=tuple(step for step in result.steps if step.error is None)))[0]
    assert error.hint == f"finish it: seamark journal resume {result.change}"
    # Closing it would leave a topic that nothing can finish.
    left = Recovery(harbour.build_executor()).abandon(result.change)
    assert left.ending is None
    again = harbour.resume_change(result.change)
    assert (str(again.ending), again.left) == ("done", ())
    assert harbour.states == dict.fromkeys(harbour.states, state)
    assert harbour.commits["connect-lake"]["orders", 0] == 15
    assert harbour.brokers.topics["orders"].configs == {"segment.bytes": "7"}


def test_ctrl_c_before_the_delete_leaves_everything_as_it_was(harbour):
    old = harbour.brokers.topics["orders"].id
    result = interrupt(harbour, harbour.plan(harbour.build_in_place()), "translate-group")
    assert (str(result.ending), result.owed) == ("partly", ())
    assert harbour.brokers.topics["orders"].id == old
    assert harbour.states == {"lake": "RUNNING", "shop": "RUNNING"}


@pytest.mark.parametrize("error", [RejectedError("policy violation"), UnknownOutcomeError("no answer")])
def test_create_that_did_not_happen_is_repeated_by_resume(harbour, error):
    create = harbour.brokers.create_topic

    def fail(*_, **__):
        harbour.brokers.create_topic = create
        raise error

    harbour.brokers.create_topic = fail
    result = harbour.apply(harbour.plan(harbour.build_in_place()))
    assert (result.ending, "orders" in harbour.brokers.topics) == (None, False)
    assert str(harbour.resume_change(result.change).ending) == "done"
    assert harbour.states == {"lake": "RUNNING", "shop": "RUNNING"}
