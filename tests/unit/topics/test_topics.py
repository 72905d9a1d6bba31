"""Topics: what is read, what is planned, what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from seamark.changes.effect import ChangeKind
from seamark.errors import AlreadyExistsError, NotFoundError, RefusedError, UnreachableError, UsageError
from seamark.kafka.groups import GroupMember, GroupType
from seamark.kafka.model import PartitionReading
from seamark.topics.users import Use
from tests.unit.changes.brokers import FakeBrokers
from tests.unit.fleet.living import SINK_CONFIG, SOURCE_CONFIG, LivingConnect, open_living_fleet, register


@pytest.fixture
def game():
    return LivingConnect()


@pytest.fixture
def brokers():
    made = FakeBrokers()
    made.add_topic("t", partitions=2, records=5, configs={"retention.ms": "1"})
    return made


@pytest.fixture
def fleet(tmp_path, game, brokers):
    with open_living_fleet(tmp_path, game, brokers=brokers) as opened:
        yield opened


def test_all_topics_are_listed_and_measured_where_asked(fleet):
    (plain,) = fleet.topics.list().items
    assert (plain.name, plain.records, plain.bytes) == ("t", None, None)
    (found,) = fleet.topics.list(sizes=True).items
    assert (found.records, found.bytes) == (10, 1000)


def test_topic_that_is_deleted_while_sizes_are_read_is_not_listed(fleet, brokers, monkeypatch):
    brokers.add_topic("going", partitions=2, records=1)
    read = brokers.read_bounds

    def delete_and_read(spots):
        spots = list(spots)
        del brokers.topics["going"]
        return read(spots)

    monkeypatch.setattr(brokers, "read_bounds", delete_and_read)
    reading = fleet.topics.list(sizes=True)
    assert [found.name for found in reading.items] == ["t"]
    assert not reading.failures


def test_partition_that_its_leader_does_not_know_yet_is_a_failure(fleet, brokers, monkeypatch):
    brokers.add_topic("new", partitions=1, records=1)
    read = brokers.read_bounds

    def read_without(spots):
        found = read(spots)
        return PartitionReading(
            {spot: one for spot, one in found.found.items() if spot != ("new", 0)},
            failures={("new", 0): NotFoundError("the leader doesn't know it")},
        )

    monkeypatch.setattr(brokers, "read_bounds", read_without)
    reading = fleet.topics.list(sizes=True)
    assert [(found.name, found.records) for found in reading.items] == [("new", None), ("t", 10)]
    assert list(reading.failures) == ["new-0"]


def test_a_topic_without_a_leader_has_no_number_of_records(fleet, brokers):
    brokers.topics["t"].leaderless = {1}
    (found,) = fleet.topics.list(sizes=True).items
    assert found.records is None


def test_the_brokers_are_closed_with_the_fleet_and_opened_again(fleet, brokers):
    fleet.topics.list()
    fleet.close()
    assert brokers.calls["close"] == 1
    assert len(fleet.topics.list()) == 1


def test_one_topic_names_who_uses_it(fleet, game, brokers):
    game.add("reader", SINK_CONFIG, state="STOPPED")
    game.add("fitting", {**SINK_CONFIG, "topics": "", "topics.regex": "[st]"})
    game.add("writer", SOURCE_CONFIG)
    game.add("guess", {**SOURCE_CONFIG, "topic": "", "topic.prefix": "t"}, state="PAUSED")
    game.add("other", {**SINK_CONFIG, "topics": "u"})
    game.add("strange", {**SINK_CONFIG, "topics": "", "topics.regex": "t(?<x"})
    brokers.add_group("g", {("t", 0): 3})
    found = {user.subject: (user.use, user.is_active) for user in fleet.topics.get("t").users}
    assert found == {
        "connector/game/reader": (Use.READS, False),
        "connector/game/fitting": (Use.READS, True),
        "connector/game/writer": (Use.WRITES, True),
        "connector/game/guess": (Use.MAY_WRITE, False),
        "connector/game/strange": (Use.MAY_READ, True),
        "group/g": (Use.COMMITTED, False),
    }


def test_a_cluster_that_does_not_answer_is_a_note_of_one_topic(fleet, game):
    game.failing["read_connectors", ""] = UnreachableError("nobody answers")
    assert any("nobody answers" in note for note in fleet.topics.get("t").notes)


def test_a_topic_that_is_not_there_is_not_found(fleet):
    for act in (fleet.topics.get, fleet.topics.delete, lambda name: fleet.topics.add_partitions(name, total=3)):
        with pytest.raises(NotFoundError, match="topic x does not exist"):
            act("x")


def test_create_is_planned_applied_and_undone(fleet, brokers):
    planned = fleet.topics.create("n", partitions=3, replication_factor=1, config={"cleanup.policy": "compact"})
    (effect,) = planned.effects
    assert (effect.sign, effect.words) == (
        ChangeKind.CREATE,
        "create: 3 partitions, replication factor 1 with cleanup.policy=compact",
    )
    assert planned.plan.locks == ("data.n",)
    result = fleet.apply(planned)
    assert result.is_done
    assert len(brokers.topics["n"].logs) == 3
    assert fleet.apply(fleet.undo(result)).is_done
    assert "n" not in brokers.topics


def test_create_refuses_what_is_there_and_what_no_broker_takes(fleet):
    with pytest.raises(AlreadyExistsError):
        fleet.topics.create("t")
    with pytest.raises(UsageError, match="invalid topic name"):
        fleet.topics.create("a b")
    with pytest.raises(UsageError, match="invalid partitions"):
        fleet.topics.create("n", partitions=0)


def test_delete_names_its_users_and_keeps_what_was_committed(fleet, game, brokers):
    game.add("reader", SINK_CONFIG, state="STOPPED")
    brokers.add_group("g", {("t", 0): 3})
    planned = fleet.topics.delete("t")
    (effect,) = planned.effects
    assert (effect.sign, effect.words) == (ChangeKind.DELETE, "delete: 10 records in 2 partitions, permanently")
    said = "\n".join(planned.plan.notes)
    assert "connector/game/reader reads it (STOPPED)" in said
    assert "the journal keeps the committed offsets of group/g" in said
    assert "can't be undone" in said
    result = fleet.apply(planned)
    assert result.is_done
    assert "t" not in brokers.topics
    entries = fleet.journal.show(result.change)
    assert '"g"' in str(entries).replace("'", '"')


@pytest.mark.parametrize("state", ["RUNNING", "FAILED"])
def test_delete_is_refused_while_a_sink_that_reads_it_runs(fleet, game, brokers, state):
    game.add("reader", SINK_CONFIG, state=state)
    with pytest.raises(RefusedError, match="topic t is in use") as caught:
        fleet.topics.delete("t")
    assert "connector/game/reader reads it" in caught.value.cause
    assert "seamark connectors stop game/reader" in caught.value.hint
    assert not brokers.writes


def test_delete_is_refused_while_a_group_reads_it_that_never_committed(fleet, brokers):
    member = GroupMember("m", "c", "h", assignment=(("t", 0),))
    brokers.add_group("g", {}, state="STABLE", members=(member,))
    with pytest.raises(RefusedError, match="in use") as caught:
        fleet.topics.delete("t")
    assert "group/g reads it (STABLE)" in caught.value.cause


def test_the_group_of_a_paused_sink_is_named_with_the_sink_to_stop(fleet, game, brokers):
    game.add("reader", SINK_CONFIG, state="PAUSED")
    brokers.add_group("connect-reader", {("t", 0): 3}, state="STABLE")
    with pytest.raises(RefusedError, match="in use") as caught:
        fleet.topics.delete("t")
    assert caught.value.cause == "group/connect-reader has committed offsets on it (STABLE)"
    assert "seamark connectors stop game/reader" in caught.value.hint


def test_delete_is_refused_where_nobody_can_tell_who_uses_it(fleet, game):
    game.failing["read_connectors", ""] = UnreachableError("nobody answers")
    with pytest.raises(UnreachableError, match="can't determine who uses"):
        fleet.topics.delete("t")


def test_delete_says_that_share_groups_are_not_known(fleet, brokers):
    brokers.add_group("s", {}, type=GroupType.SHARE, state="STABLE")
    assert any("share groups" in note for note in fleet.topics.delete("t").plan.notes)


@pytest.mark.parametrize("name", ["offsets", "__consumer_offsets", "seamark-journal", "seamark-journal-heads"])
def test_topics_that_others_live_on_are_never_deleted(fleet, brokers, name):
    brokers.add_topic(name, is_internal=name.startswith("__"))
    with pytest.raises(RefusedError, match="refusing to modify internal topic"):
        fleet.topics.delete(name)


def test_growing_says_whom_it_hurts_and_verifies(fleet, game, brokers):
    brokers.topics["t"].configs["cleanup.policy"] = "compact"
    game.add("reader", SINK_CONFIG)
    brokers.add_group("connect-reader", {("t", 0): 3}, state="STABLE")
    planned = fleet.topics.add_partitions("t", total=4)
    said = "\n".join(planned.plan.notes)
    assert "connector/game/reader, group/connect-reader may read them out of order" in said
    assert "topic/t is compacted" in said
    assert "group/connect-reader: the new partitions have no committed offsets" in said
    assert "can't be undone" in said
    assert planned.effects[0].words == "add 2 partitions, permanently"
    assert fleet.apply(planned).is_done
    assert len(brokers.topics["t"].logs) == 4


def test_growing_to_what_it_is_does_nothing(fleet):
    assert fleet.topics.add_partitions("t", total=2).is_empty


def test_shrinking_is_refused_with_the_copy_that_does_it(fleet):
    with pytest.raises(RefusedError, match="can't reduce topic") as caught:
        fleet.topics.add_partitions("t", total=1)
    assert "seamark copies plan t --partitions 2:1" in caught.value.hint


def test_configs_are_altered_and_put_back(fleet, brokers):
    planned = fleet.topics.update("t", set={"cleanup.policy": "compact"}, unset=["retention.ms"])
    fields = {field.key: (field.before, field.after) for field in planned.effects[0].fields}
    assert fields == {"cleanup.policy": (None, "compact"), "retention.ms": ("1", None)}
    result = fleet.apply(planned)
    assert brokers.topics["t"].configs == {"cleanup.policy": "compact"}
    assert fleet.apply(fleet.undo(result)).is_done
    assert brokers.topics["t"].configs == {"retention.ms": "1"}


def test_alter_needs_something_to_alter(fleet):
    with pytest.raises(UsageError, match="no config to change"):
        fleet.topics.update("t")
    with pytest.raises(UsageError, match="at once"):
        fleet.topics.update("t", set={"a": 1}, unset=["a"])


def test_the_lock_of_a_saved_plan_is_derived(fleet):
    plan = fleet.topics.create("n").plan
    assert fleet.review(register(fleet, replace(plan, locks=()))).plan.locks == ("data.n",)


def test_a_guess_that_connect_confirms_is_none(fleet, game):
    game.add("writer", {**SOURCE_CONFIG, "topic": "", "topic.prefix": "t"})
    assert not fleet.topics.delete("t").is_empty
    game.used_topics["writer"] = ("t", "tt")
    with pytest.raises(RefusedError, match="in use") as caught:
        fleet.topics.delete("t")
    assert "connector/game/writer writes it (RUNNING)" in caught.value.cause
    game.failing["read_topics", "writer"] = RefusedError("not kept")
    assert "connector/game/writer may write it (RUNNING)" in fleet.topics.delete("t").plan.notes


def test_a_saved_delete_is_refused_where_a_sink_reads_it_by_now(fleet, game, brokers):
    plan = register(fleet, fleet.topics.delete("t").plan)
    assert not fleet.review(plan).is_empty
    game.add("reader", SINK_CONFIG)
    for act in (fleet.review, fleet.apply):
        with pytest.raises(RefusedError, match="topic t is in use"):
            act(plan)
    assert not brokers.writes
