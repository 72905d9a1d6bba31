"""topics, groups and lag: what they show, ask, do, and how they end."""

from __future__ import annotations

import io
import json

import pytest

from seamark.cli.main import execute
from seamark.cli.session import Session
from seamark.connect.model import Worker
from seamark.errors import UnreachableError
from tests.unit.changes.brokers import FakeBrokers
from tests.unit.cli.stubs import NOON, Terminal
from tests.unit.cli.stubs import Outcome as Ended
from tests.unit.fleet.living import SINK_CONFIG, SOURCE_CONFIG, LivingConnect, open_living_fleet


class Desk:
    """Brokers in memory, a Connect cluster that lives, and command lines."""

    def __init__(self, folder):
        self.folder = folder
        self.game = LivingConnect()
        self.brokers = FakeBrokers()
        self.on_sleep = lambda: None

    def run(self, *argv, typed=None):
        out, err = io.StringIO(), io.StringIO()
        session = Session(
            out=out,
            err=err,
            stdin=io.StringIO() if typed is None else Terminal(typed),
            now=lambda: NOON,
            sleep=lambda seconds: self.on_sleep(),
            open_fleet=lambda name: open_living_fleet(self.folder, self.game, brokers=self.brokers),
        )
        return Ended(execute(argv, session=session), out.getvalue(), err.getvalue())


@pytest.fixture
def desk(tmp_path):
    made = Desk(tmp_path)
    made.brokers.add_topic("t", partitions=2, records=10)
    made.brokers.add_topic("__internal", is_internal=True)
    made.brokers.add_group("g", {("t", 0): 4, ("t", 1): 10})
    return made


def rows(text):
    return [line.split() for line in text.splitlines()]


def test_topics_list_leaves_internal_ones_out_unless_asked(desk):
    ended = desk.run("topics", "list")
    assert ended.code == 0, ended.err
    assert rows(ended.out) == [
        ["TOPIC", "PARTITIONS", "REPLICATION", "HEALTH", "CLEANUP"],
        ["t", "2", "1", "✓", "HEALTHY", "delete"],
    ]
    assert desk.run("topics", "list", "--internal", "-o", "name").out == "__internal\nt\n"
    assert desk.run("topics", "list", "x*", "-o", "name").out == ""


@pytest.mark.parametrize("noun", ["topics", "groups"])
def test_a_plain_name_that_is_nowhere_is_an_error(desk, noun):
    ended = desk.run(noun, "list", "nobody")
    assert ended.code == 1
    assert f"error: {noun[:-1]} nobody does not exist" in ended.err
    assert desk.run(noun, "list", "nobody", "*").code == 3
    assert desk.run(noun, "list", "nobody*").code == 0


def test_topics_list_measures_where_asked(desk):
    (item,) = json.loads(desk.run("topics", "list", "--sizes", "-o", "json").out)["items"]
    assert (item["records"], item["bytes"]) == (20, 2000)
    assert "2.0 KiB" in desk.run("topics", "list", "--sizes").out


def test_topics_show_tells_partitions_configs_and_users(desk):
    desk.brokers.topics["t"].configs["retention.ms"] = "1"
    desk.brokers.topics["t"].leaderless = {1}
    ended = desk.run("topics", "show", "t")
    assert ended.code == 0
    assert "✗ LEADERLESS" in ended.out
    assert "  retention.ms=1" in ended.out
    assert "  group/g has committed offsets (EMPTY)" in ended.out
    body = json.loads(desk.run("topics", "show", "t", "-o", "json").out)
    assert [(found["partition"], found["latest"]) for found in body["partitions"]] == [(0, 10), (1, None)]
    assert body["users"][0]["subject"] == "group/g"


def test_topics_are_created_grown_and_altered(desk):
    made = desk.run(
        "topics", "create", "n", "--partitions", "1", "--replication-factor", "1", "--config", "a=b=c", "-y"
    )
    assert made.code == 0, made.err
    assert desk.brokers.topics["n"].configs == {"a": "b=c"}
    assert desk.run("topics", "add-partitions", "n", "--total", "3", "-y").code == 0
    assert len(desk.brokers.topics["n"].logs) == 3
    assert desk.run("topics", "update", "n", "--config", "a=d", "-y").code == 0
    assert desk.brokers.topics["n"].configs == {"a": "d"}
    assert desk.run("topics", "update", "n", "--unset", "a", "-y").code == 0
    assert desk.brokers.topics["n"].configs == {}


@pytest.mark.parametrize("pair", ["a", "=b"])
def test_a_config_is_key_and_value(desk, pair):
    assert desk.run("topics", "create", "n", "--config", pair, "-y").code == 64


def test_shrinking_ends_with_5_and_names_the_copy(desk):
    ended = desk.run("topics", "add-partitions", "t", "--total", "1", "-y")
    assert ended.code == 5
    assert "seamark copies plan t --partitions 2:1" in ended.err


def test_deleting_a_topic_needs_its_name_typed(desk):
    assert desk.run("topics", "delete", "t", typed="yes\n").code == 130
    assert not desk.brokers.writes
    ended = desk.run("topics", "delete", "t", typed="t\n")
    assert ended.code == 0, ended.err
    assert "- topic/t   delete: 20 records in 2 partitions, permanently" in ended.out
    assert "the journal keeps the committed offsets of group/g" in ended.out
    assert "t" not in desk.brokers.topics


def test_deleting_a_topic_that_a_running_sink_reads_ends_with_5(desk):
    desk.game.add("reader", SINK_CONFIG)
    ended = desk.run("topics", "delete", "t", "-y")
    assert ended.code == 5
    assert "connector/game/reader reads it (RUNNING)" in ended.err
    assert not desk.brokers.writes


def make_well(desk):
    """Nothing to find: the topic that Connect lives on is there, and the group has read all."""
    desk.brokers.add_topic("offsets", configs={"cleanup.policy": "compact"})
    desk.brokers.add_group("g", {("t", 0): 10, ("t", 1): 10})


def test_health_tells_what_where_why_and_the_next_step(desk):
    make_well(desk)
    fine = desk.run("topics", "health")
    assert (fine.code, fine.out) == (0, "3 topics, 4 partitions, 1 group checked: no findings\n"), fine.err
    desk.brokers.topics["t"].leaderless = {0, 1}
    ended = desk.run("topics", "health")
    assert ended.code == 1
    assert ended.out.splitlines() == [
        "✗ ERROR    the partition has no leader  (leaderless)",
        "    where: t 0-1",
        "    why:   the partition can be neither read nor written",
        "    next:  broker 1 is running: wait, or check the broker log",
        "✗ ERROR    1 replica in sync, and min.insync.replicas is 1  (under-min-isr)",
        "    where: t 0-1",
        "    why:   writes with acks=all fail, which Connect and most producers use",
        "    next:  broker 1 is running: wait, or check the broker log",
        "3 topics, 4 partitions, 1 group checked: 2 errors",
    ]
    body = json.loads(desk.run("topics", "health", "-o", "json").out)
    assert body["counts"] == {"error": 2, "warning": 0, "info": 0}
    assert body["items"][0]["partitions"] == [0, 1]
    assert desk.run("topics", "health", "-o", "name").out == "leaderless/t\nunder-min-isr/t\n"


def test_what_is_the_same_of_many_topics_is_said_once(desk):
    make_well(desk)
    for number in range(12):
        desk.brokers.add_topic(f"u{number:02}", leaderless={0})
    lines = desk.run("topics", "health").out.splitlines()
    assert (lines[0], len(lines)) == ("✗ ERROR    the partition has no leader  (leaderless)", 9)
    assert lines[1] == f"    where: {' · '.join(f'u{number:02} 0' for number in range(10))} and 2 topics more (-o wide)"
    assert "u11 0" in desk.run("topics", "health", "-o", "wide").out
    assert len(json.loads(desk.run("topics", "health", "-o", "json").out)["items"]) == 24


def test_health_can_be_asked_of_some_topics(desk):
    desk.brokers.topics["t"].leaderless = {0}
    assert desk.run("topics", "health", "__*").code == 0
    missing = desk.run("topics", "health", "typo")
    assert (missing.code, "topic typo does not exist" in missing.err) == (1, True)


def test_health_that_could_not_read_all_says_so(desk):
    make_well(desk)
    desk.game.failing["read_connectors", ""] = UnreachableError("nobody answers")
    ended = desk.run("topics", "health")
    assert ended.code == 3
    assert "no findings in what could be read" in ended.out


def test_groups_are_listed_and_shown(desk):
    desk.game.add("own", {**SINK_CONFIG, "consumer.override.group.id": "g"}, state="STOPPED")
    assert rows(desk.run("groups", "list").out) == [
        ["GROUP", "STATE", "TYPE", "CONNECTOR"],
        ["g", "EMPTY", "classic", "game/own"],
    ]
    assert desk.run("groups", "list", "h*", "-o", "name").out == ""
    shown = desk.run("groups", "show", "g").out
    assert "group g · EMPTY · classic · 0 members · lag 6 records · connector/game/own" in shown
    assert [found["lag"] for found in json.loads(desk.run("groups", "show", "g", "-o", "json").out)["positions"]] == [
        6,
        0,
    ]


def test_a_group_is_moved_and_what_is_shown_can_be_put_back(desk, tmp_path):
    saved = tmp_path / "saved.csv"
    saved.write_text(desk.run("groups", "show", "g", "-o", "csv").out)
    ended = desk.run("groups", "move", "g", "--to", "earliest", "--topic", "t:0", "-y")
    assert ended.code == 0, ended.err
    assert '"4" → "0", 4 records reprocessed' in ended.out
    assert desk.brokers.groups["g"].offsets["t", 0].offset == 0
    assert desk.run("groups", "move", "g", "--from-file", str(saved), "-y").code == 0
    assert desk.brokers.groups["g"].offsets["t", 0].offset == 4
    assert desk.run("groups", "move", "g", "--shift", "-1", "-y").code == 0
    assert desk.run("groups", "move", "g", "--back", "1h", "-y").code == 0
    assert {found.offset for found in desk.brokers.groups["g"].offsets.values()} == {0}


def test_a_move_from_another_group_takes_its_name(desk):
    desk.brokers.add_group("h", {("t", 0): 7})
    assert desk.run("groups", "move", "g", "--from-group", "h", "-y").code == 0
    assert desk.brokers.groups["g"].offsets["t", 0].offset == 7


def test_groups_of_a_glob_are_exported_and_moved_by_their_file(desk, tmp_path):
    desk.brokers.add_group("h", {("t", 0): 7})
    assert desk.run("groups", "export", "g", "-o", "json").out == "t,0,4\nt,1,10\n"
    exported = desk.run("groups", "export", "*").out
    assert exported == "g,t,0,4\ng,t,1,10\nh,t,0,7\n"
    saved = tmp_path / "saved.csv"
    saved.write_text(exported)
    moved = desk.run("groups", "move", "[gh]", "--to", "earliest", typed="yes\n")
    assert moved.code == 0, moved.err
    assert "move 2 groups" in moved.out
    assert {found.offset for name in "gh" for found in desk.brokers.groups[name].offsets.values()} == {0}
    assert desk.run("groups", "move", "g", "h", "--from-file", str(saved), "-y").code == 0
    assert desk.run("groups", "export", "g", "h").out == exported
    assert desk.run("groups", "move", "x*", "--to", "latest", "-y").code == 1
    assert desk.run("groups", "export", "nobody").code == 1


def test_a_group_in_use_is_refused_with_5(desk):
    desk.brokers.groups["g"].state = "STABLE"
    for command in (["move", "g", "--to", "latest"], ["delete", "g"]):
        assert desk.run("groups", *command, "-y").code == 5
    assert not desk.brokers.writes


def test_deleting_a_group_needs_its_name_typed(desk):
    assert desk.run("groups", "delete", "g", typed="yes\n").code == 130
    assert desk.run("groups", "delete", "g", typed="g\n").code == 0
    assert "g" not in desk.brokers.groups


def test_lag_shows_the_worst_first_and_the_total(desk):
    desk.brokers.add_group("behind", {("t", 0): 0})
    ended = desk.run("lag")
    assert ended.code == 0, ended.err
    assert rows(ended.out) == [
        ["GROUP", "CONNECTOR", "STATE", "PARTITIONS", "LAG", "DELAY", "WORST"],
        # The records of these brokers are of 1970.
        ["behind", "-", "EMPTY", "1", "10", "56", "years", "t-0", "10"],
        ["g", "-", "EMPTY", "2", "6", "~", "56", "years", "t-0", "6"],
        [
            "2",
            "groups,",
            "total",
            "lag",
            "16",
            "records;",
            "highest",
            "delay",
            "56",
            "years",
            "(behind)",
        ],
    ]
    told = json.loads(desk.run("lag", "-o", "json").out)
    assert told["total"] == 16
    assert [found["seconds"] // (365 * 86_400) for found in told["items"]] == [56, 56]


def test_lag_shows_a_trend_while_it_is_watched(desk):
    def read_on():
        desk.brokers.topics["t"].logs[0] += [0] * 5

    desk.on_sleep = read_on
    ended = desk.run("lag", "--watch", "--max-updates", "3")
    assert ended.code == 0, ended.err
    assert "TREND" in ended.out
    assert "▁▄█" in ended.out or "▁▅█" in ended.out


def add_consumers(desk):
    """A sink that is 10 records behind, one that never committed, and the group that shows a pipeline's lag."""
    desk.game.add("lake", SINK_CONFIG)
    desk.game.add("idle", SINK_CONFIG)
    desk.brokers.add_group("connect-lake", {("t", 0): 0})
    desk.brokers.add_group("seamark-pipeline-raid", {("t", 1): 10})


def lag_of(desk, *owners):
    ended = desk.run("lag", *owners, "-o", "json")
    assert ended.code == 0, ended.err
    return {found["group"] for found in json.loads(ended.out)["items"]}


def test_lag_of_chosen_owners_only(desk):
    add_consumers(desk)
    assert lag_of(desk) == {"g", "connect-lake", "connect-idle", "seamark-pipeline-raid"}
    assert lag_of(desk, "lake") == lag_of(desk, "game/lake") == lag_of(desk, "la*") == {"connect-lake"}
    assert lag_of(desk, "idle") == {"connect-idle"}
    assert lag_of(desk, "game/*") == {"connect-lake", "connect-idle"}
    assert lag_of(desk, "group/g", "pipeline/raid") == {"g", "seamark-pipeline-raid"}
    assert lag_of(desk, "group/connect-*") == {"connect-lake", "connect-idle"}
    assert lag_of(desk, "none*") == set()


def test_lag_of_one_owner_reads_the_offsets_of_its_group_only(desk):
    add_consumers(desk)
    read, asked = desk.brokers.read_committed, []
    desk.brokers.read_committed = lambda groups, **kw: asked.extend(groups) or read(groups, **kw)
    assert lag_of(desk, "lake") == {"connect-lake"}
    assert asked == ["connect-lake"]


def test_lag_of_an_owner_without_lag_is_an_error_with_the_right_command(desk):
    add_consumers(desk)
    desk.game.add("in", SOURCE_CONFIG)
    ended = desk.run("lag", "in", "lake")
    assert ended.code == 3
    assert "hint:  run: seamark lag --sources in" in ended.err
    assert "connect-lake" in ended.out
    ended = desk.run("lag", "g")
    assert ended.code == 1
    assert "hint:  pass the group: group/g" in ended.err
    assert desk.run("lag", "group/nope").code == 1


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["group/g", "--max-lag", "6"], 0),
        (["group/g", "--max-lag", "5"], 1),
        (["group/g", "--max-lag", "100y"], 64),
        # The records of these brokers are of 1970.
        (["group/g", "--max-lag", "5m"], 1),
        (["group/g", "--max-lag", "40000d"], 0),
        (["pipeline/raid", "--max-lag", "0"], 0),
        (["pipeline/raid", "--max-lag", "1s", "--fail-on", "warning"], 0),
        # A sink that never committed has an unknown lag.
        (["idle", "--max-lag", "0"], 0),
        (["idle", "--max-lag", "0", "--fail-on", "error"], 0),
        (["idle", "--max-lag", "0", "--fail-on", "warning"], 1),
        (["idle", "--max-lag", "1d", "--fail-on", "warning"], 1),
        (["--fail-on", "error"], 64),
        (["--sources", "--max-lag", "5"], 64),
    ],
)
def test_lag_above_the_limit_ends_with_1(desk, argv, code):
    add_consumers(desk)
    assert desk.run("lag", *argv).code == code


def test_lag_above_the_limit_is_named(desk):
    add_consumers(desk)
    assert "above --max-lag: connect-lake, g\n" in desk.run("lag", "--max-lag", "5").out
    assert json.loads(desk.run("lag", "--max-lag", "9", "-o", "json").out)["above_max_lag"] == ["connect-lake"]


def test_partition_without_a_known_end_is_a_warning(desk):
    desk.brokers.add_group("half", {("t", 0): 4, ("gone", 0): 1})
    assert desk.run("lag", "group/half", "--max-lag", "6").code == 0
    assert desk.run("lag", "group/half", "--max-lag", "6", "--fail-on", "warning").code == 1
    assert desk.run("lag", "group/half", "--max-lag", "40000d", "--fail-on", "warning").code == 1
    assert desk.run("lag", "group/half", "--max-lag", "5").code == 1


@pytest.mark.parametrize(
    ("state", "failed", "codes"),
    [("RUNNING", (), (0, 0)), ("RUNNING", (0,), (1, 1)), ("UNASSIGNED", (), (0, 1)), ("PAUSED", (), (0, 0))],
)
def test_status_fails_on_what_is_asked(desk, state, failed, codes):
    desk.game.add("lake", SINK_CONFIG, state=state, failed=failed)
    assert desk.run("status").code == 0
    assert (desk.run("status", "--fail-on", "error").code, desk.run("status", "--fail-on", "warning").code) == codes


@pytest.mark.parametrize(("up", "codes"), [((True, False), (0, 1)), ((False, False), (1, 1))])
def test_status_fails_on_workers_that_are_down(desk, up, codes):
    desk.game.read_workers = lambda: tuple(
        Worker("game", f"http://w{number}:8083", "4.3.1", error="" if is_up else "timeout")
        for number, is_up in enumerate(up)
    )
    assert (desk.run("status", "--fail-on", "error").code, desk.run("status", "--fail-on", "warning").code) == codes
