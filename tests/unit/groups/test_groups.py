"""Groups: what is read, where they are moved to, what is refused; and who is behind."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from seamark.changes.effect import ChangeKind
from seamark.errors import (
    NotFoundError,
    RefusedError,
    StalePlanError,
    UnreachableError,
    UnsupportedError,
    UsageError,
)
from seamark.groups.csv_file import read_offset_file, render_offset_file
from seamark.kafka.groups import Committed, GroupMember, GroupType
from tests.unit.changes.brokers import FakeBrokers
from tests.unit.fleet.living import SINK_CONFIG, LivingConnect, open_living_fleet, register


@pytest.fixture
def game():
    return LivingConnect()


@pytest.fixture
def brokers():
    made = FakeBrokers()
    made.add_topic("t", partitions=2, records=10, starts={0: 2})
    made.add_topic("u", records=4)
    made.add_group("g", {("t", 0): 5, ("t", 1): Committed(6, metadata="m")})
    return made


@pytest.fixture
def fleet(tmp_path, game, brokers):
    with open_living_fleet(tmp_path, game, brokers=brokers) as opened:
        yield opened


def positions(brokers, group="g"):
    return {spot: commit.offset for spot, commit in brokers.groups[group].offsets.items()}


def test_groups_of_sinks_are_named_by_their_connector(fleet, game, brokers):
    game.add("sink", SINK_CONFIG)
    game.add("own", {**SINK_CONFIG, "consumer.override.group.id": "g"})
    brokers.add_group("connect-sink", {})
    brokers.add_group("s", {}, type=GroupType.SHARE)
    found = {entry.name: (entry.connector, entry.listing.type) for entry in fleet.groups.list()}
    assert found == {
        "connect-sink": ("game/sink", GroupType.CLASSIC),
        "g": ("game/own", GroupType.CLASSIC),
        "s": ("", GroupType.SHARE),
    }


def test_a_cluster_that_does_not_answer_is_a_failure_of_the_list(fleet, game):
    game.failing["read_connectors", ""] = UnreachableError("nobody answers")
    reading = fleet.groups.list()
    assert [entry.name for entry in reading] == ["g"]
    assert list(reading.failures) == ["game"]


def test_one_group_tells_how_far_it_is_behind(fleet):
    assert dict(fleet.groups.get("g").lag) == {("t", 0): 5, ("t", 1): 4}
    with pytest.raises(NotFoundError):
        fleet.groups.get("nobody")


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"to": "earliest"}, (2, 0)),
        ({"to": "latest"}, (10, 10)),
        ({"to": 7}, (7, 7)),
        ({"to": "7"}, (7, 7)),
        ({"to": "0"}, (2, 0)),
        ({"to": "99"}, (10, 10)),
        ({"to": "1970-01-01T00:00:04Z"}, (4, 4)),
        ({"to": datetime(1970, 1, 1, 0, 0, 8, 500000, tzinfo=UTC)}, (9, 9)),
        ({"to": "1970-01-01T00:00:04"}, (4, 4)),
        ({"to": "2026-11-14T12:00:00Z"}, (10, 10)),
        ({"to": "-1h"}, (10, 10)),
        ({"to": "-P7D"}, (10, 10)),
        ({"back": "PT2S"}, (3, 4)),
        ({"to": "0,007"}, (7, 7)),
        ({"back": "2s"}, (3, 4)),
        ({"back": 1.5}, (4, 5)),
        ({"back": timedelta(days=1)}, (2, 0)),
        ({"shift": 2}, (7, 8)),
        ({"shift": -4}, (2, 2)),
        ({"shift": 100}, (10, 10)),
        ({"to": 7, "topics": ["t:1"]}, (5, 7)),
    ],
)
def test_every_way_moves_within_the_log_and_is_undone(fleet, brokers, where, expected):
    result = fleet.apply(fleet.groups.move("g", **where))
    assert result.is_done
    assert positions(brokers) == {("t", 0): expected[0], ("t", 1): expected[1]}
    assert fleet.apply(fleet.undo(result)).is_done
    assert brokers.groups["g"].offsets == {("t", 0): Committed(5), ("t", 1): Committed(6, metadata="m")}


def test_group_that_has_caught_up_is_left_alone_and_one_on_its_way_is_refused(fleet, brokers):
    before = dict(brokers.groups["g"].offsets)
    result = fleet.apply(fleet.groups.move("g", to="earliest"))
    brokers.add_group("g", {("t", 0): 4, ("t", 1): 4})
    with pytest.raises(StalePlanError, match="the plan is out of date"):
        fleet.undo(result)
    brokers.add_group("g", before)
    undo = fleet.undo(result)
    assert undo.is_empty
    assert undo.plan.notes == ("group/g is already in its previous state and is not changed",)


def test_the_plan_counts_what_is_read_again_and_skipped(fleet):
    planned = fleet.groups.move("g", to=5, topics=["t", "u"])
    (effect,) = planned.effects
    assert effect.words == "move on 2 partitions: 1 record reprocessed, 0 records skipped"
    assert [(found.key, found.before, found.after, found.note) for found in effect.fields] == [
        ("t-1", "6", "5", "1 record reprocessed"),
        ("u-0", None, "4", "no offset was committed"),
    ]
    assert planned.plan.locks == ("group.g",)
    assert '"6" → "5", 1 record reprocessed' in str(planned)


def test_what_stands_there_already_is_left_alone(fleet):
    for where in ({"shift": 0}, {"back": "0s"}, {"to": "current"}):
        assert fleet.groups.move("g", **where).is_empty


def test_a_group_is_moved_to_where_another_stands(fleet, brokers):
    brokers.add_group("h", {("t", 0): 9, ("u", 0): 99})
    assert fleet.apply(fleet.groups.move("g", source="h")).is_done
    assert positions(brokers) == {("t", 0): 9, ("t", 1): 6, ("u", 0): 4}
    assert fleet.groups.move("g", source="h", topics=["t:0"]).is_empty
    with pytest.raises(NotFoundError, match="has no offsets"):
        fleet.groups.move("g", source="nobody")


@pytest.mark.parametrize(
    "text",
    [
        "t,0,3\nt,1,99\n",
        "g,t,0,3\ng,t,1,99\nh,t,1,1\n",
        'topic,partition,offset\n"t",0,3\nt,1,99',
        "topic,partition,offset,earliest,latest,lag,metadata\nt,0,3,0,10,7,\nt,1,99,0,10,0,\n",
    ],
)
def test_a_group_is_moved_by_an_export(fleet, brokers, tmp_path, text):
    file = tmp_path / "export.csv"
    file.write_text(text)
    assert fleet.apply(fleet.groups.move("g", source=file)).is_done
    assert positions(brokers) == {("t", 0): 3, ("t", 1): 10}


@pytest.mark.parametrize("text", ["t,0\n", "t,x,3\n", "t,0,-1\n", "t,0,1\nt,0,2\n"])
def test_an_export_that_is_none_is_refused(fleet, tmp_path, text):
    file = tmp_path / "export.csv"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"export\.csv"):
        fleet.groups.move("g", source=file)


def test_groups_of_names_and_globs_are_moved_in_one_plan_and_each_is_undone(fleet, brokers):
    brokers.add_group("billing-1", {("t", 0): 5, ("u", 0): 1})
    brokers.add_group("billing-2", {("t", 1): 3})
    brokers.add_group("billing-new", {})
    brokers.add_group("billing-share", {}, type=GroupType.SHARE)
    planned = fleet.groups.move(["billing-*", "g"], to="latest")
    assert planned.plan.title == "move 3 groups"
    assert [action.group for action in planned.plan.actions] == ["billing-1", "billing-2", "g"]
    assert planned.plan.notes == (
        "group billing-share is a share group and is not moved",
        "not moved, because nothing is committed: billing-new",
    )
    result = fleet.apply(planned)
    assert result.is_done
    assert positions(brokers, "billing-1") == {("t", 0): 10, ("u", 0): 4}
    assert positions(brokers, "billing-2") == {("t", 1): 10}
    assert positions(brokers) == {("t", 0): 10, ("t", 1): 10}
    assert brokers.groups["billing-new"].offsets == {}
    assert fleet.apply(fleet.undo(result)).is_done
    assert positions(brokers, "billing-1") == {("t", 0): 5, ("u", 0): 1}
    assert positions(brokers, "billing-2") == {("t", 1): 3}
    assert positions(brokers) == {("t", 0): 5, ("t", 1): 6}


def test_a_glob_with_a_topic_selects_the_groups_that_read_it(fleet, brokers):
    brokers.add_group("h", {("u", 0): 1})
    planned = fleet.groups.move(["*"], to="latest", topics=["u"])
    assert [action.group for action in planned.plan.actions] == ["h"]
    assert planned.plan.notes == ("not moved, because nothing is committed on these topics: g",)
    # A group that is named gets offsets on a new topic.
    assert [action.group for action in fleet.groups.move(["g", "h"], to=1, topics=["u"]).plan.actions] == ["g"]


def test_several_groups_are_refused_together(fleet, game, brokers):
    brokers.add_group("h", {("t", 0): 5}, type=GroupType.CONSUMER)
    brokers.add_group("i", {("u", 0): 5})
    game.add("own", {**SINK_CONFIG, "consumer.override.group.id": "h"})
    for name in "gh":
        brokers.groups[name].state = "STABLE"
        brokers.groups[name].members = (GroupMember("m", "c", "h"),)
    with pytest.raises(RefusedError, match="2 of 3 groups are in use; no changes were made") as caught:
        fleet.groups.move(["*"], to="latest")
    assert "h: the group is STABLE with 1 member; it belongs to connector/game/own" in caught.value.cause
    assert caught.value.hint.startswith("stop its members; seamark connectors stop game/own, because")
    for name in "gh":
        brokers.add_group(name, {("t", 0): 5})
    with pytest.raises(RefusedError, match="1 of 3 groups can't be moved") as caught:
        fleet.groups.move(["g", "h", "i"], shift=1, topics=["t:0"])
    assert caught.value.cause == "i: no offset is committed on t-0, so there is no offset to start from"
    brokers.add_group("s", {}, type=GroupType.SHARE)
    with pytest.raises(RefusedError, match="s is a share group"):
        fleet.groups.move(["g", "s"], to="latest")
    with pytest.raises(NotFoundError, match="no group with committed offsets matches x"):
        fleet.groups.move(["x*"], to="latest")
    assert not brokers.writes


def test_groups_of_an_export_are_moved_also_those_that_do_not_exist_yet(fleet, brokers, tmp_path):
    file = tmp_path / "export.csv"
    file.write_text("g,t,0,3\nnew,u,0,2\nother,gone,0,x\n")
    planned = fleet.groups.move(["g", "n*"], source=file)
    assert "group new has no committed offsets yet: it starts from these" in planned.plan.notes
    result = fleet.apply(planned)
    assert (positions(brokers), positions(brokers, "new")) == ({("t", 0): 3, ("t", 1): 6}, {("u", 0): 2})
    assert fleet.apply(fleet.undo(result)).is_done
    assert not brokers.groups["new"].offsets
    with pytest.raises(NotFoundError, match="has no offsets for group h"):
        fleet.groups.move(["g", "h"], source=file)
    with pytest.raises(NotFoundError, match=r"no group in .* matches x"):
        fleet.groups.move(["x*"], source=file)


def test_a_file_without_groups_is_for_one_group(fleet, tmp_path):
    file = tmp_path / "export.csv"
    file.write_text("t,0,3\n")
    with pytest.raises(UsageError, match="has no group column"):
        fleet.groups.move(["g", "h"], source=file)
    file.write_text('{"owners": {}}')
    with pytest.raises(UsageError, match="is JSON") as caught:
        fleet.groups.move(["g", "h"], source=file)
    assert caught.value.hint.startswith("run seamark offsets import")


def test_an_export_is_read_back_whatever_a_group_is_called(fleet, brokers, tmp_path):
    names = ["a,b", 'say "hi"', "-x", " with blanks", "=1+1", "ü"]
    for name in names:
        brokers.add_group(name, {("t", 0): 5})
    text = render_offset_file(fleet.groups.export(["*"]), with_group=True)
    file = tmp_path / "export.csv"
    file.write_text(text)
    assert '"a,b",t,0,5\n' in text
    assert "-x,t,0,5\n" in text
    offsets = read_offset_file(file)
    assert {name: offsets.find_offsets(name) for name in names} == {name: {("t", 0): 5} for name in names}
    with pytest.raises(UnsupportedError, match="can't be exported as CSV"):
        render_offset_file({"a\nb": {("t", 0): 5}}, with_group=True)


def test_exactly_one_way_must_be_said(fleet):
    for ways in ({}, {"to": 1, "shift": 1}):
        with pytest.raises(UsageError, match="pass exactly one of --to, --back"):
            fleet.groups.move("g", **ways)
    for ways in ({"to": "noon"}, {"back": "long"}, {"to": 1, "topics": ["t:x"]}):
        with pytest.raises(UsageError):
            fleet.groups.move("g", **ways)


def test_time_of_a_group_at_the_end_is_that_of_the_newest_record(fleet, brokers):
    brokers.add_group("g", {("t", 0): 10, ("t", 1): 10})
    assert fleet.apply(fleet.groups.move("g", back="3s")).is_done
    # The newest record is of second 9.
    assert positions(brokers) == {("t", 0): 6, ("t", 1): 6}


def test_group_on_an_empty_partition_keeps_its_offset(fleet, brokers):
    brokers.add_topic("empty")
    brokers.add_group("g", {("empty", 0): 0})
    assert fleet.groups.move("g", back="1h").is_empty


def test_records_at_one_time_are_all_reprocessed(fleet, brokers):
    brokers.topics["t"].logs[0] = [0, 1000, 1000, 1000, 4000, 4000, 4000, 7000, 8000, 9000]
    brokers.add_group("g", {("t", 0): 6})
    assert fleet.apply(fleet.groups.move("g", back="3s")).is_done
    assert positions(brokers) == {("t", 0): 2}


@pytest.mark.parametrize("where", [{"shift": 1}, {"back": "1h"}, {"to": "current"}])
def test_a_move_from_nothing_is_refused(fleet, where):
    with pytest.raises(RefusedError, match="no offset is committed on u-0"):
        fleet.groups.move("g", topics=["u"], **where)


def test_a_partition_that_is_not_there_is_not_found(fleet):
    with pytest.raises(NotFoundError, match="no partition 7"):
        fleet.groups.move("g", to=1, topics=["t:0,7"])


def test_a_new_group_can_be_given_positions_and_loses_them_again(fleet, brokers):
    with pytest.raises(NotFoundError):
        fleet.groups.move("new", to="earliest")
    planned = fleet.groups.move("new", to="latest", topics=["u"])
    assert any("no committed offsets yet" in note for note in planned.plan.notes)
    result = fleet.apply(planned)
    assert positions(brokers, "new") == {("u", 0): 4}
    assert fleet.apply(fleet.undo(result)).is_done
    assert not brokers.groups["new"].offsets


@pytest.mark.parametrize("act", [lambda groups: groups.move("g", to=1), lambda groups: groups.delete("g")])
def test_a_group_in_use_is_refused_with_its_connector(fleet, game, brokers, act):
    game.add("own", {**SINK_CONFIG, "consumer.override.group.id": "g"})
    brokers.groups["g"].state = "STABLE"
    brokers.groups["g"].members = (GroupMember("m", "c", "h"),)
    with pytest.raises(RefusedError, match="group g is in use") as caught:
        act(fleet.groups)
    assert "belongs to connector/game/own" in caught.value.cause
    assert "seamark connectors stop game/own" in caught.value.hint
    assert not brokers.writes


@pytest.mark.parametrize("act", ["move", "delete", "get"])
def test_share_groups_are_never_touched(fleet, brokers, act):
    brokers.add_group("s", {}, type=GroupType.SHARE)
    more = {"to": 1} if act == "move" else {}
    with pytest.raises(RefusedError, match="share group"):
        getattr(fleet.groups, act)("s", **more)


def test_the_group_of_a_sink_is_locked_with_its_cluster(fleet, game):
    game.add("own", {**SINK_CONFIG, "consumer.override.group.id": "g"}, state="STOPPED")
    planned = fleet.groups.move("g", to="earliest")
    assert planned.plan.locks == ("group.g@workers",)
    assert "the group belongs to connector/game/own" in planned.plan.notes
    assert not fleet.review(register(fleet, planned.plan)).is_empty


def test_a_group_is_deleted_and_put_back(fleet, brokers):
    planned = fleet.groups.delete("g")
    assert (planned.effects[0].sign, planned.effects[0].words) == (
        ChangeKind.DELETE,
        "delete with its committed offsets on 2 partitions",
    )
    result = fleet.apply(planned)
    assert "g" not in brokers.groups
    assert fleet.apply(fleet.undo(result)).is_done
    assert positions(brokers) == {("t", 0): 5, ("t", 1): 6}
    with pytest.raises(NotFoundError):
        fleet.groups.delete("nobody")


def test_lag_is_told_of_every_group_and_sink_the_worst_first(fleet, game, brokers):
    game.add("new", SINK_CONFIG)
    game.add("sink", SINK_CONFIG)
    brokers.add_group("connect-sink", {("t", 0): 0, ("t", 1): 1, ("gone", 0): 3})
    found = [(one.name, one.connector, one.total, one.unknown) for one in fleet.lag()]
    assert found == [
        ("connect-sink", "game/sink", 19, 1),
        ("g", "", 9, 0),
        ("connect-new", "game/new", None, 0),
    ]
    assert fleet.lag().items[0].worst == (("t", 0), 10)


def test_lag_tells_how_long_the_next_record_has_been_there(fleet, brokers):
    # The fourth record of `u` was written ten seconds ago, the others long before.
    now_ms = round(fleet._world.clock.now() * 1000)
    brokers.topics["u"].logs[0] = [now_ms - 3_600_000, now_ms - 1_800_000, now_ms - 60_000, now_ms - 10_000]
    brokers.add_group("h", {("u", 0): 3})
    brokers.add_group("done", {("u", 0): 4})
    found = {one.name: one for one in fleet.lag()}
    assert found["h"].delay.seconds == pytest.approx(10, abs=2)
    assert found["done"].delay.seconds == 0
    assert found["g"].delay.seconds > 50 * 365 * 86_400
    assert fleet.groups.get("h").delays[("u", 0)].seconds == pytest.approx(10, abs=2)
    assert {one.name: one.delays for one in fleet.lag(seconds=False)} == {"h": {}, "done": {}, "g": {}}


def test_a_group_whose_ends_are_not_known_is_not_told_to_be_up_to_date(fleet, brokers):
    brokers.add_group("h", {("gone", 0): 3, ("u", 0): 4})
    (found,) = [one for one in fleet.lag() if one.name == "h"]
    assert (found.total, found.unknown, found.delay) == (0, 1, None)
