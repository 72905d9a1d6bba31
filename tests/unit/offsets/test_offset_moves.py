"""Moving offsets: where to, what the plan counts, what is refused, and the way back."""

from __future__ import annotations

import json

import pytest

from seamark.changes.plan import Plan
from seamark.core.offsets import Certainty
from seamark.errors import NotFoundError, RefusedError, StalePlanError, UnsupportedError, UsageError
from seamark.offsets.model import Tolerance
from tests.unit.fleet.living import SINK_CONFIG, SOURCE_CONFIG, register
from tests.unit.offsets.moving import Place

FILE = {"filename": "/in"}
JDBC = {"connector.class": "io.aiven.connect.jdbc.JdbcSourceConnector", "tasks.max": "1", "table.whitelist": "a,b"}
TABLE = {"protocol": "1", "table": "db.public.a"}
AT = 1_767_225_600_123  # 2026-01-01T00:00:00.123Z


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path)
    made.game.add("fs", SOURCE_CONFIG)
    made.scan.put(("fs", FILE), {"position": 40}).put(("fs", FILE), {"position": 100})
    made.game.add("lake", SINK_CONFIG)
    made.brokers.add_topic("t", partitions=2, records=10, starts={0: 2})
    made.brokers.add_group("connect-lake", {("t", 0): 8, ("t", 1): 6})
    with made.fleet:
        yield made


def add_jdbc(place, offset, name="pg", partition=TABLE, **config):
    place.game.add(name, {**JDBC, **config})
    place.scan.put((name, partition), offset)


def wanted(planned):
    """The offsets that a plan writes."""
    for step in planned.plan.steps:
        if step.kind == "write-offsets":
            return [one["offset"] for one in step.arguments["offsets"]]
    return []


def counted(planned):
    found = [field.preview for effect in planned.effects for field in effect.fields]
    return [(one.as_dict()["direction"], one.counted.figure) for one in found]


@pytest.mark.parametrize(
    ("where", "position", "count"),
    [
        ({"to": 30}, 30, ("again", 70)),
        ({"to": "30"}, 30, ("again", 70)),
        ({"to": {"position": 130}}, 130, ("skipped", 30)),
        ({"to": '{"position": 99}'}, 99, ("again", 1)),
        ({"shift": -70}, 30, ("again", 70)),
        ({"shift": -7000}, 0, ("again", 100)),
        ({"shift": 5}, 105, ("skipped", 5)),
        ({"at": "2023-11-14T22:13:20.500Z"}, 40, ("again", 60)),
    ],
)
def test_source_is_moved_counted_verified_and_put_back(place, where, position, count):
    offsets = place.fleet.offsets
    planned = offsets.restore(where["at"], ["fs"]) if "at" in where else offsets.move("fs", **where)
    assert counted(planned) == [count]
    result = place.apply(planned)
    assert place.held("fs") == [{"position": position}]
    assert place.game.states["fs"] == "RUNNING"
    undo = place.fleet.undo(result.change)
    assert counted(undo) == [({"again": "skipped", "skipped": "again"}[count[0]], count[1])]
    place.apply(undo)
    assert place.held("fs") == [{"position": 100}]


def test_beginning_forgets_the_offset(place):
    planned = place.fleet.offsets.move("fs", to="earliest")
    assert counted(planned) == [("again", 100)]
    assert "reprocessed: the rows are duplicated in its topics" in str(planned)
    result = place.apply(planned)
    assert place.held("fs") == []
    place.apply(place.fleet.undo(result.change))
    assert place.held("fs") == [{"position": 100}]


def test_what_is_so_already_is_no_plan(place):
    assert place.fleet.offsets.move("fs", to=100).is_empty
    place.apply(place.fleet.offsets.reset("fs"))
    assert place.fleet.offsets.reset("fs").is_empty


@pytest.mark.parametrize("where", [{}, {"to": 1, "shift": 2}])
def test_one_way_must_be_said(place, where):
    with pytest.raises(UsageError, match="pass exactly one of"):
        place.fleet.offsets.move("fs", **where)


def test_what_a_family_can_not_do_says_what_it_can(place):
    with pytest.raises(UnsupportedError) as refused:
        place.fleet.offsets.move("fs", back="1h")
    assert refused.value.hint.startswith("use --to NUMBER, --shift N, --to JSON")
    with pytest.raises(UnsupportedError, match="no history of game/lake"):
        place.fleet.offsets.restore("2026-01-01", ["lake"])


def test_history_that_does_not_reach_back_is_refused_by_name(place):
    with pytest.raises(UnsupportedError, match="does not reach back to 2020-01-01T00:00:00Z for file /in"):
        place.fleet.offsets.restore("2020-01-01", ["fs"])


def test_offsets_that_no_task_could_read_are_refused(place):
    with pytest.raises(RefusedError, match="invalid offsets for game/fs"):
        place.fleet.offsets.move("fs", to={"position": "x"})


def test_resumed_meanwhile_the_plan_is_stale_and_nothing_waits(place):
    place.game.states["fs"] = "STOPPED"
    planned = place.fleet.offsets.move("fs", to=5)
    place.game.states["fs"] = "RUNNING"
    with pytest.raises(StalePlanError):
        place.fleet.apply(planned)


def test_the_way_back_stops_what_runs_by_now(place):
    place.game.states["fs"] = "STOPPED"
    result = place.apply(place.fleet.offsets.move("fs", to=5))
    assert place.game.states["fs"] == "STOPPED"
    place.game.states["fs"] = "RUNNING"
    undo = place.fleet.undo(result.change)
    assert "stops, moves, resumes" in str(undo)
    place.apply(undo)
    assert place.held("fs") == [{"position": 100}]
    assert place.game.states["fs"] == "RUNNING"


def test_beyond_the_tolerance_nothing_is_written_and_it_runs_on(place):
    planned = place.fleet.offsets.move("fs", to=50, tolerance=Tolerance(0.0, 10))
    place.scan.put(("fs", FILE), {"position": 111})
    result = place.fleet.apply(planned)
    (error,) = [step.error for step in result.steps if step.error]
    assert "61 bytes would be reprocessed; the plan has 50, and up to 60 is allowed" in error.cause
    assert place.held("fs") == [{"position": 111}]
    assert place.game.states["fs"] == "RUNNING"
    assert place.game.calls["patch_offsets"] == 0


def test_within_the_tolerance_it_is_written(place):
    planned = place.fleet.offsets.move("fs", to=50, tolerance=Tolerance(0.0, 10))
    place.scan.put(("fs", FILE), {"position": 110})
    place.apply(planned)
    assert place.held("fs") == [{"position": 50}]


def test_a_worker_that_is_gone_is_refused_unless_accepted(place):
    place.game.silent = ("w1:8083",)
    result = place.fleet.apply(place.fleet.offsets.move("fs", to=5))
    assert not result.is_done
    assert place.held("fs") == [{"position": 100}]
    place.apply(place.fleet.offsets.move("fs", to=5, assume_worker_down=True))
    assert place.held("fs") == [{"position": 5}]


# --- JDBC


def test_jdbc_number(place):
    add_jdbc(place, {"incrementing": 50}, mode="incrementing")
    assert wanted(place.fleet.offsets.move("pg", to=20)) == [{"incrementing": 20}]
    planned = place.fleet.offsets.move("pg", shift=-7)
    assert wanted(planned) == [{"incrementing": 43}]
    # No database is named in the context: no number is there twice, so it is a bound.
    assert counted(planned) == [("again", 7)]
    assert "resumes: at most 7 rows reprocessed" in str(planned)
    with pytest.raises(UnsupportedError):
        place.fleet.offsets.move("pg", back="1h")


@pytest.mark.parametrize(
    ("mode", "held", "where", "expected"),
    [
        ("timestamp", {"timestamp": AT}, {"back": "1h"}, {"timestamp": AT - 3_600_000}),
        (
            "timestamp",
            {"timestamp": AT, "timestamp_nanos": 123_456_000},
            {"back": 0.5},
            {"timestamp": AT - 500, "timestamp_nanos": 623_456_000},
        ),
        (
            "timestamp+incrementing",
            {"timestamp": AT, "timestamp_nanos": 123_000_000, "incrementing": 9},
            {"to": "2026-01-01T00:00:00Z"},
            {"timestamp": 1_767_225_600_000, "timestamp_nanos": 0, "incrementing": -1},
        ),
    ],
)
def test_jdbc_time_moves_with_its_nanoseconds_and_the_number_of_its_moment(place, mode, held, where, expected):
    add_jdbc(place, held, mode=mode)
    planned = place.fleet.offsets.move("pg", **where)
    assert wanted(planned) == [expected]
    # No database is named in the context: a direction, and no figure.
    assert counted(planned) == [("again", None)]
    assert "resumes: unknown number of rows reprocessed" in str(planned)
    assert "the context has no database for this connector" in str(planned)
    with pytest.raises(UnsupportedError):
        place.fleet.offsets.move("pg", shift=5)


def test_jdbc_forget_takes_protocol_0_along_and_a_move_leaves_it_alone(place):
    add_jdbc(place, {"incrementing": 50}, mode="incrementing")
    old = {"table": "a"}
    place.scan.put(("pg", old), {"incrementing": 3})
    planned = place.fleet.offsets.reset("pg", partitions=["db.public.a"])
    step = next(step for step in planned.plan.steps if step.kind == "write-offsets")
    assert [one["partition"] for one in step.arguments["offsets"]] == [TABLE, old]
    assert wanted(place.fleet.offsets.move("pg", shift=-1)) == [{"incrementing": 49}]
    assert wanted(place.fleet.offsets.move("pg", to=7)) == [{"incrementing": 7}]


def test_one_place_is_not_that_of_several_partitions(place):
    add_jdbc(place, {"incrementing": 50}, mode="incrementing")
    place.scan.put(("pg", {**TABLE, "table": "db.public.b"}), {"incrementing": 8})
    with pytest.raises(UsageError, match="2 partitions"):
        place.fleet.offsets.move("pg", to=5)
    assert wanted(place.fleet.offsets.move("pg", to=5, partitions=['{"table": "db.public.b"}'])) == [
        {"incrementing": 5}
    ]
    assert wanted(place.fleet.offsets.move("pg", shift=-5)) == [{"incrementing": 45}, {"incrementing": 3}]
    with pytest.raises(NotFoundError, match="no partition c"):
        place.fleet.offsets.move("pg", to=5, partitions=["c"])


def test_a_partition_that_is_not_held_yet_can_be_given_an_offset(place):
    place.game.add("new", SOURCE_CONFIG)
    with pytest.raises(NotFoundError, match="has no offsets"):
        place.fleet.offsets.move("new", to=5)
    planned = place.fleet.offsets.move("new", to={"position": 5}, partitions=[json.dumps(FILE)])
    assert counted(planned) == [("skipped", 5)]


# --- MirrorMaker


def test_mirror_maker_is_given_the_next_record_and_keeps_the_last(place):
    config = {"connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector", "tasks.max": "1"}
    place.game.add("mm", config)
    place.scan.put(("mm", {"cluster": "a", "partition": 0, "topic": "t"}), {"offset": 19})
    planned = place.fleet.offsets.move("mm", to=10)
    assert (wanted(planned), counted(planned)) == ([{"offset": 9}], [("again", 10)])
    assert wanted(place.fleet.offsets.move("mm", to=0)) == [None]
    assert wanted(place.fleet.offsets.move("mm", shift=-100)) == [None]


# --- sinks and groups


@pytest.mark.parametrize(
    ("where", "expected", "count"),
    [
        ({"to": "earliest"}, [2, 0], [("again", 6), ("again", 6)]),
        ({"to": "latest"}, [10, 10], [("skipped", 2), ("skipped", 4)]),
        ({"to": 7}, [7, 7], [("again", 1), ("skipped", 1)]),
        ({"to": '{"kafka_offset": 7}'}, [7, 7], [("again", 1), ("skipped", 1)]),
        ({"shift": -3}, [5, 3], [("again", 3), ("again", 3)]),
        ({"shift": -3, "topics": ["t:1"]}, [3], [("again", 3)]),
        ({"to": "1970-01-01T00:00:04Z"}, [4, 4], [("again", 4), ("again", 2)]),
    ],
)
def test_sink_is_moved_as_a_group_is(place, where, expected, count):
    planned = place.fleet.offsets.move("lake", **where)
    assert [one["kafka_offset"] for one in wanted(planned)] == expected
    assert counted(planned) == count
    before = place.held("lake")
    result = place.apply(planned)
    place.apply(place.fleet.undo(result.change))
    assert place.held("lake") == before


def test_sink_that_forgets_reads_the_whole_log_again(place):
    planned = place.fleet.offsets.reset("lake")
    assert counted(planned) == [("again", 6), ("again", 6)]
    assert {field.preview.counted.certainty for field in planned.effects[0].fields} == {Certainty.BOUND}
    result = place.apply(planned)
    assert place.held("lake") == []
    place.apply(place.fleet.undo(result.change))
    assert place.held("lake") == [{"kafka_offset": 8}, {"kafka_offset": 6}]


def test_groups_go_the_way_of_groups(place):
    place.brokers.add_group("g", {("t", 0): 5})
    assert "1 record reprocessed" in str(place.fleet.offsets.move("group/g", shift=-1))
    with pytest.raises(UnsupportedError):
        place.fleet.offsets.restore("2026-01-01", ["group/g"])
    place.apply(place.fleet.offsets.copy("lake", "group/g"))
    assert place.held("group/g") == [{"kafka_offset": 8}, {"kafka_offset": 6}]
    place.apply(place.fleet.offsets.reset("group/g", topics=["t:0"]))
    assert place.held("group/g") == [{"kafka_offset": 6}]
    place.apply(place.fleet.offsets.reset("group/g"))
    assert "g" not in place.brokers.groups


# --- files and copies


def test_import_is_one_plan_with_a_lane_for_each_owner(place, tmp_path):
    file = tmp_path / "offsets.json"
    lake = {"kafka_topic": "t", "kafka_partition": 0}
    file.write_text(
        json.dumps(
            {
                "fs": [{"partition": FILE, "offset": {"position": 7}}],
                "game/lake": [{"partition": lake, "offset": {"kafka_offset": 900}}],
                "group/g": [{"partition": lake, "offset": {"kafka_offset": 3}}],
            }
        )
    )
    planned = place.fleet.offsets.import_file(file)
    assert {step.lane for step in planned.plan.steps} == {"connector/game/fs", "connector/game/lake", "group/g"}
    assert "900 is outside of the log (2 to 10): 10 is used instead" in str(planned)
    place.apply(planned)
    assert (place.held("fs"), place.held("lake"), place.held("group/g")) == (
        [{"position": 7}],
        [{"kafka_offset": 10}, {"kafka_offset": 6}],
        [{"kafka_offset": 3}],
    )
    assert place.fleet.offsets.import_file(file, owners=["fs"]).is_empty
    assert place.fleet.offsets.import_file(file, owners=["lake"]).is_empty
    with pytest.raises(NotFoundError, match="does not contain g"):
        place.fleet.offsets.import_file(file, owners=["g"])
    with pytest.raises(NotFoundError, match="does not contain nobody"):
        place.fleet.offsets.import_file(file, owners=["nobody"])


def test_a_bare_name_that_a_file_has_twice_is_asked_for(place, tmp_path):
    file = tmp_path / "offsets.json"
    one = [{"partition": FILE, "offset": {"position": 7}}]
    file.write_text(json.dumps({"game/fs": one, "shop/fs": one}))
    with pytest.raises(UsageError, match="in several Connect clusters") as refused:
        place.fleet.offsets.import_file(file, owners=["fs"])
    assert "game/fs, shop/fs" in refused.value.hint


def test_import_of_an_owner_that_is_gone_changes_nothing_and_names_it(place, tmp_path):
    file = tmp_path / "offsets.json"
    one = [{"partition": FILE, "offset": {"position": 7}}]
    file.write_text(json.dumps({"fs": one, "gone": one}))
    with pytest.raises(RefusedError, match="1 of 2 owners") as refused:
        place.fleet.offsets.import_file(file)
    assert "gone" in refused.value.cause


@pytest.mark.parametrize("wrap", [lambda one: {"fs": one}, lambda one: {"game/fs": one}, lambda one: {"offsets": one}])
def test_move_takes_the_owners_part_of_a_file(place, tmp_path, wrap):
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps(wrap([{"partition": FILE, "offset": {"position": 7}}])))
    assert wanted(place.fleet.offsets.move("fs", source=file)) == [{"position": 7}]


def test_a_file_of_another_cluster_speaks_of_the_connector_that_moved_here(place, tmp_path):
    file = tmp_path / "offsets.json"
    said = [{"partition": FILE, "offset": {"position": 7}}]
    file.write_text(json.dumps({"elsewhere/fs": said, "elsewhere/others": said}))
    assert wanted(place.fleet.offsets.move("fs", source=file)) == [{"position": 7}]
    file.write_text(json.dumps({"elsewhere/fs": said, "nowhere/fs": said, "group/fs": said}))
    with pytest.raises(NotFoundError, match="does not contain"):
        place.fleet.offsets.move("fs", source=file)


def test_copy_rewrites_the_key_as_the_other_names_it(place):
    place.game.add("other", {**SOURCE_CONFIG, "file": "/other"})
    place.apply(place.fleet.offsets.copy("fs", "other"))
    (found,) = place.fleet.offsets.get("other").offsets
    assert (found.partition, found.offset) == ({"filename": "/other"}, {"position": 100})


def test_copy_between_families_is_refused(place):
    add_jdbc(place, {"incrementing": 50}, mode="incrementing")
    with pytest.raises(RefusedError, match="can't use the offsets of pg"):
        place.fleet.offsets.copy("pg", "fs")
    with pytest.raises(RefusedError, match="not offsets of topic partitions"):
        place.fleet.offsets.copy("fs", "lake")


def test_copy_takes_what_a_connector_that_is_gone_has_left(place):
    place.scan.put(("gone", FILE), {"position": 70})
    place.game.add("other", {**SOURCE_CONFIG, "file": "/other"})
    for source in ("gone", "game/gone"):
        planned = place.fleet.offsets.copy(source, "other")
        assert wanted(planned) == [{"position": 70}]
        assert f"{source} does not exist: its offsets are orphaned" in str(planned)
        assert f"delete them with seamark offsets purge {source}" in str(planned)
    place.apply(planned)
    (found,) = place.fleet.offsets.get("other").offsets
    assert (found.partition, found.offset) == ({"filename": "/other"}, {"position": 70})
    assert place.held("game/gone") == [{"position": 70}], "what was left stays"


def test_copy_of_what_the_target_could_not_read_or_nobody_left_is_refused(place):
    place.scan.put(("gone", TABLE), {"incrementing": 50})
    with pytest.raises(RefusedError, match="invalid offsets for game/fs"):
        place.fleet.offsets.copy("gone", "fs")
    with pytest.raises(NotFoundError, match="never"):
        place.fleet.offsets.copy("never", "fs")


def test_copy_of_what_was_left_under_two_spellings_is_refused(place):
    place.scan.put(b'["gone",{"filename":"/in"}]', {"position": 70})
    place.scan.put(b'["gone", {"filename": "/in"}]', {"position": 90})
    place.scan.put(b'["gone",{"filename":"/in"}]', {"position": 80}, partition=4)
    with pytest.raises(RefusedError, match="can't determine the offsets of gone"):
        place.fleet.offsets.copy("gone", "fs")


# --- a new connector with offsets


def test_new_connector_begins_where_a_file_says_and_is_undone_with_its_offsets(place, tmp_path):
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps({"new": [{"partition": FILE, "offset": {"position": 7}}]}))
    planned = place.fleet.connectors.create("new", SOURCE_CONFIG, offsets_file=file)
    assert [step.kind for step in planned.plan.steps] == [
        "create-connector",
        "prove-stopped",
        "write-offsets",
        "verify-offsets",
        # Runs only if the offsets were not written.
        "delete-if-stopped",
        "set-run-state",
        "await-running",
        "check-progress",
    ]
    assert "create, STOPPED, write 1 offset, then RUNNING" in str(planned)
    assert "starts at file /in: byte 7" in str(planned)
    saved = Plan.from_dict(json.loads(json.dumps(planned.plan.to_dict())))
    result = place.apply(place.fleet.review(register(place.fleet, saved)))
    assert (place.held("new"), place.game.states["new"]) == ([{"position": 7}], "RUNNING")
    place.apply(place.fleet.undo(result.change))
    assert "new" not in place.game.configs
    with pytest.raises(NotFoundError):
        place.fleet.offsets.get("new")


def test_new_connector_whose_offsets_fail_is_deleted_before_it_runs(place, tmp_path):
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps({"new": [{"partition": FILE, "offset": {"position": 7}}]}))
    planned = place.fleet.connectors.create("new", SOURCE_CONFIG, offsets_file=file)
    place.game.failing["patch_offsets", "new"] = RefusedError("Connect said no")
    assert not place.fleet.apply(planned).is_done
    assert "new" not in place.game.configs
    assert not place.game.calls["resume"]


@pytest.mark.parametrize(
    ("offset", "words"), [({"position": "x"}, "invalid offsets for game/new"), (None, "contains no offsets")]
)
def test_new_connector_with_wrong_offsets_is_refused(place, tmp_path, offset, words):
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps({"new": [{"partition": FILE, "offset": offset}]}))
    with pytest.raises((RefusedError, NotFoundError), match=words):
        place.fleet.connectors.create("new", SOURCE_CONFIG, offsets_file=file)


def test_new_sink_begins_within_its_log(place, tmp_path):
    file = tmp_path / "offsets.json"
    partition = {"kafka_topic": "t", "kafka_partition": 0}
    file.write_text(json.dumps({"new": [{"partition": partition, "offset": {"kafka_offset": 99}}]}))
    place.brokers.add_group("connect-new", {})
    planned = place.fleet.connectors.create("new", SINK_CONFIG, offsets_file=file, state="STOPPED")
    assert "99 is outside of the log (2 to 10): 10 is used instead" in str(planned)
    place.apply(planned)
    assert (place.held("new"), place.game.states["new"]) == ([{"kafka_offset": 10}], "STOPPED")


@pytest.fixture
def sharing(tmp_path):
    """Two sinks of one group, one of them reading two topics, and a topic that neither reads."""
    made = Place(tmp_path)
    group = {"consumer.override.group.id": "both"}
    made.game.add("lake", {**SINK_CONFIG, **group, "topics": "t,own"})
    made.game.add("pond", {**SINK_CONFIG, **group, "topics.regex": "t|pond.*", "topics": ""})
    for topic in ("t", "own", "pond-1", "old"):
        made.brokers.add_topic(topic, records=10)
    made.brokers.add_group("both", {("t", 0): 8, ("own", 0): 7, ("pond-1", 0): 6, ("old", 0): 5})
    with made.fleet:
        yield made


@pytest.mark.parametrize("verb", ["reset", "move"])
def test_offsets_of_others_in_a_shared_group_are_left_alone(sharing, verb):
    change = getattr(sharing.fleet.offsets, verb)
    where = {} if verb == "reset" else {"to": "earliest"}
    with pytest.raises(RefusedError, match="also has offsets of other owners") as refused:
        change("lake", **where)
    assert "game/pond reads t" in refused.value.cause
    assert "game/pond reads pond-1" in refused.value.cause
    assert "game/lake does not read old" in refused.value.cause
    assert "--topic own;" in refused.value.hint
    assert "group/both" in refused.value.hint
    with pytest.raises(RefusedError, match="game/pond may be running in group both"):
        change("lake", topics=["own"], **where)
    sharing.game.states["pond"] = "STOPPED"
    planned = change("lake", topics=["own"], **where)
    assert "group both is shared with game/pond: their offsets are not changed" in str(planned)


def test_a_group_of_the_workers_is_shared_by_all_their_sinks(tmp_path):
    place = Place(tmp_path, consumer_group_id="all")
    place.game.add("lake", SINK_CONFIG)
    place.brokers.add_topic("t", records=10)
    place.brokers.add_group("all", {("t", 0): 8})
    with place.fleet:
        assert not place.fleet.offsets.move("lake", shift=-1).is_empty
        place.game.add("pond", SINK_CONFIG)
        with pytest.raises(RefusedError, match="group all of game/lake also has offsets of other owners"):
            place.fleet.offsets.move("lake", shift=-1)


def test_a_plan_for_a_hundred_owners_scans_their_topic_once(place, tmp_path):
    names = [f"fs{number}" for number in range(100)]
    export = {}
    for name in names:
        place.game.add(name, {**SOURCE_CONFIG, "file": f"/{name}"})
        place.scan.put((name, {"filename": f"/{name}"}), {"position": 50})
        export[name] = [{"partition": {"filename": f"/{name}"}, "offset": {"position": 10}}]
    path = tmp_path / "export.json"
    path.write_text(json.dumps(export))
    place.scan.reads = 0
    place.game.calls.clear()
    planned = place.fleet.offsets.import_file(path, wait_seconds=0.0)
    assert len(planned.plan.actions) == 100
    assert place.scan.reads == 1
    assert place.game.calls["read_connector"] == 100
    assert place.game.calls["read_status"] == 0

    # A saved plan is read the same way.
    place.scan.reads = 0
    place.game.calls.clear()
    prepared = place.fleet._planner.prepare(planned.plan.actions)
    assert len(prepared.items) == 100
    assert place.scan.reads == 1
    assert place.game.calls["read_connector"] == 100


def test_the_next_plan_reads_again(place):
    before = place.fleet.offsets.move("fs", shift=-10)
    place.scan.put(("fs", FILE), {"position": 200})
    place.game.states["fs"] = "PAUSED"
    after = place.fleet.offsets.move("fs", shift=-10)
    assert [one.plan.actions[0].offsets[0].offset for one in (before, after)] == [{"position": 90}, {"position": 190}]
    restored = [step.state for step in after.steps if step.kind == "set-run-state"]
    assert restored == ["STOPPED", "PAUSED"]
