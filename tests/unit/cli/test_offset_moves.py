"""offsets move, forget, import and copy: what they show, ask, do, and how they end."""

from __future__ import annotations

import io
import json

import pytest

from seamark.cli.main import execute
from seamark.cli.session import Session
from tests.unit.cli.stubs import NOON, Outcome, Terminal
from tests.unit.fleet.living import SINK_CONFIG, SOURCE_CONFIG
from tests.unit.offsets.moving import Place

FILE = {"filename": "/in"}


class Desk:
    """One source, one sink, and command lines."""

    def __init__(self, folder):
        self.place = Place(folder)
        self.place.game.add("fs", SOURCE_CONFIG)
        self.place.scan.put(("fs", FILE), {"position": 100})
        self.place.game.add("lake", SINK_CONFIG)
        self.place.brokers.add_topic("t", records=10)
        self.place.brokers.add_group("connect-lake", {("t", 0): 8})

    def run(self, *argv, typed=None):
        out, err = io.StringIO(), io.StringIO()
        session = Session(
            out=out,
            err=err,
            stdin=io.StringIO() if typed is None else Terminal(typed),
            now=lambda: NOON,
            open_fleet=lambda name: self.place.fleet,
        )
        return Outcome(execute(["offsets", *map(str, argv)], session=session), out.getvalue(), err.getvalue())


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


def test_move_shows_what_it_comes_to_and_asks(desk):
    ended = desk.run("move", "fs", "--to", "40", typed="no\n")
    assert "~ connector/game/fs   stops, moves, resumes: about 60 bytes reprocessed" in ended.out
    assert '      file /in  "byte 100" → "byte 40", about 60 bytes reprocessed' in ended.out.splitlines()
    assert "not confirmed" in ended.err
    assert desk.place.held("fs") == [{"position": 100}]
    ended = desk.run("move", "fs", "--to", "40", typed="yes\n")
    assert ended.code == 0, ended.err
    assert "Undo: seamark journal undo" in ended.out + ended.err
    assert desk.place.held("fs") == [{"position": 40}]


def test_plan_as_json_has_the_count(desk):
    ended = desk.run("move", "lake", "--shift", "-3", "--dry-run", "-o", "json")
    (effect,) = json.loads(ended.out)["effects"]
    assert effect["fields"][0]["preview"] == {
        "direction": "again",
        "unit": "records",
        "figure": 3,
        "certainty": "bound",
        "reason": "each offset is at most one record: compaction and transactions leave gaps",
    }
    assert effect["outlook"] == ["reprocessed: the lines are appended to the file again"]


def test_reset_import_and_copy_do_what_they_say(desk, tmp_path):
    file = tmp_path / "e.json"
    assert desk.run("export", "fs", "--out", file).code == 0
    assert desk.run("reset", "fs", "--yes").code == 0
    assert desk.place.held("fs") == []
    ended = desk.run("import", file, "--yes")
    assert ended.code == 0, ended.err
    assert desk.place.held("fs") == [{"position": 100}]
    assert desk.run("copy", "lake", "group/g", "--yes").code == 0
    assert desk.place.held("group/g") == [{"kafka_offset": 8}]


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (["move", "fs"], 64, "pass exactly one of --to, --back, --shift, --from-file, --from-group"),
        (["move", "fs", "--to", "nowhere"], 64, "invalid value 'nowhere'"),
        (["move", "fs", "--to", "1,2"], 64, "invalid value '1,2'"),
        (["move", "fs", "--to", "1", "--tolerance", "much"], 64, "invalid value 'much' for --tolerance"),
        (["move", "fs", "--back", "1h"], 5, "can't be moved with --back DURATION"),
        (["move", "nobody", "--to", "1"], 1, "nobody"),
        (["import", "/nowhere.json"], 64, "can't be read"),
    ],
)
def test_what_can_not_be_done_ends_with_its_code(desk, argv, code, words):
    ended = desk.run(*argv, "--yes")
    assert (ended.code, words in ended.err) == (code, True), ended.err


def test_tolerance_of_the_command_line_counts(desk):
    out = desk.run("move", "fs", "--to", "40", "--tolerance", "25%", "--dry-run", "-o", "json").out
    (step,) = [step for step in json.loads(out)["steps"] if step["kind"] == "check-preview"]
    assert step["arguments"]["tolerance"] == {"share": 0.25, "least": 0}
    assert step["arguments"]["planned"] == {
        "unit": "bytes",
        "again": 60,
        "skipped": 0,
        "unknown": 0,
        "certainty": "estimate",
    }


def test_several_owners_go_back_to_a_moment_and_say_whose_word_it_is(desk):
    ended = desk.run("restore", "fs", "lake", "--at", "2023-11-14T22:13:30Z", "--by-record-time", "--dry-run")
    assert ended.code == 0, ended.err
    assert "restore the offsets of 2 owners at 2023-11-14T22:13:30Z" in ended.out
    assert "! game/fs already has these offsets: exact: offsets-" in ended.out
    assert "! game/lake, t-0: the current offset is lower, and is not changed" in ended.out
    ended = desk.run("restore", "--all", "--at", "1970-01-01T00:00:05Z", "--by-record-time", "--skip-unknown", "--yes")
    assert ended.code == 0, ended.err
    assert "game/fs is not changed: the history of game/fs does not reach back" in ended.out
    assert "upper bound: the first record of that time or later" in ended.out
    assert desk.place.held("lake") == [{"kafka_offset": 5}]


def test_of_whom_nobody_knows_is_refused(desk):
    ended = desk.run("restore", "fs", "lake", "--at", "2023-11-14T22:13:30Z", "--yes")
    assert ended.code == 5
    assert "no evidence for the past offsets of 1 of 2 owners; no changes were made" in ended.err
    assert "--skip-unknown" in ended.err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["move", "fs", "lake", "--to", "3"], "unexpected extra argument (lake)"),
        (["move", "--to", "3"], "Missing argument 'OWNER'"),
        (["move", "fs", "--to", "3", "--by-record-time"], "unknown option --by-record-time"),
        (["move", "fs", "--to", "3", "--as-of", "2023-11-14"], "use: seamark offsets restore OWNER --at TIME"),
        (["restore", "--at", "2023-11-14"], "no owner given"),
        (["restore", "fs"], "Missing option '--at'"),
        (["move", "fs", "--to", "beginning"], "invalid value 'beginning': expected earliest"),
        (["move", "fs", "--to", "3", "--topic", "t"], "use --partition"),
        (["move", "lake", "--to", "3", "--partition", "t:0"], "use --topic t:0"),
        (["move", "lake", "--from-group", "g"], "use seamark offsets copy group/g lake"),
        (["move", "group/g", "--from-group", "g", "--from-file", "x.json"], "pass exactly one of"),
    ],
)
def test_wrong_options_of_move_and_restore_are_refused(desk, argv, said):
    ended = desk.run(*argv, "--yes")
    assert ended.code == 64
    assert said in ended.err


def test_location_before_now_is_a_time(desk):
    ended = desk.run("move", "lake", "--to", "-1h", "--dry-run", "-o", "json")
    assert ended.code == 0, ended.err


def test_current_offset_changes_nothing_and_commas_are_accepted(desk):
    desk.place.brokers.add_group("g", {("t", 0): 3})
    for owner in ("fs", "lake", "group/g"):
        assert json.loads(desk.run("move", owner, "--to", "current", "--dry-run", "-o", "json").out)["effects"] == []
    assert desk.run("move", "fs", "--to", "0,040", "--yes").code == 0
    assert desk.place.held("fs") == [{"position": 40}]
    assert desk.run("move", "fs", "--shift", "1,000", "--yes").code == 0
    assert desk.place.held("fs") == [{"position": 1040}]


def test_source_has_no_latest_offset(desk):
    ended = desk.run("move", "fs", "--to", "latest", "--yes")
    assert (ended.code, "expected earliest, current" in ended.err) == (64, True)


@pytest.mark.parametrize("option", ["--clean", "--only"])
def test_removed_options_of_repair_name_the_runbook(desk, option):
    ended = desk.run("repair", "fs", option, "--dry-run")
    assert ended.code == 64
    assert f"{option} was removed" in ended.err
    assert "docs/runbooks/offsets-topic-repartitioned.md" in ended.err
    assert option not in desk.run("repair", "--help").out
