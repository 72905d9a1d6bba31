"""A cut-over under the same name: the topic is deleted, made anew and filled from its copy."""

from __future__ import annotations

import pytest

from seamark.errors import RefusedError, UnreachableError
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
