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
    assert "~ connector/game/fs   stops, moves, goes on: about 60 bytes read again" in ended.out
    assert '      file /in  "byte 100" → "byte 40", about 60 bytes read again' in ended.out.splitlines()
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
        "reason": "each offset is one record at most: compaction leaves gaps, and so do transactions",
    }
    assert effect["outlook"] == ["read again: the lines are appended to the file once more"]


def test_forget_import_and_copy_do_what_they_say(desk, tmp_path):
    file = tmp_path / "e.json"
    assert desk.run("export", "fs", "--out", file).code == 0
    assert desk.run("forget", "fs", "--yes").code == 0
    assert desk.place.held("fs") == []
    ended = desk.run("import", file, "--yes")
    assert ended.code == 0, ended.err
    assert desk.place.held("fs") == [{"position": 100}]
    assert desk.run("copy", "lake", "group/g", "--yes").code == 0
    assert desk.place.held("group/g") == [{"kafka_offset": 8}]


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (["move", "fs"], 64, "say in one way where it shall stand"),
        (["move", "fs", "--to", "nowhere"], 64, "'nowhere' is no place"),
        (["move", "fs", "--to", "1", "--tolerance", "much"], 64, "'much' is no tolerance"),
        (["move", "fs", "--back", "1h"], 5, "can't be moved by --back TIME"),
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
    ended = desk.run("move", "fs", "lake", "--as-of", "2023-11-14T22:13:30Z", "--by-record-time", "--dry-run")
    assert ended.code == 0, ended.err
    assert "put 2 owners back to where they stood at 2023-11-14T22:13:30Z" in ended.out
    assert "! game/fs stands there already: stood there exactly: offsets-" in ended.out
    assert "! game/lake, t-0: it stands before that already, and stays" in ended.out
    ended = desk.run("move", "--all", "--as-of", "1970-01-01T00:00:05Z", "--by-record-time", "--skip-unknown", "--yes")
    assert ended.code == 0, ended.err
    assert "game/fs is left out: the history of game/fs does not reach back" in ended.out
    assert "stood there or before, a bound: the first record of that time or later" in ended.out
    assert desk.place.held("lake") == [{"kafka_offset": 5}]


def test_of_whom_nobody_knows_is_refused(desk):
    ended = desk.run("move", "fs", "lake", "--as-of", "2023-11-14T22:13:30Z", "--yes")
    assert ended.code == 5
    assert "nobody can tell where 1 of 2 owners stood; nothing was changed" in ended.err
    assert "--skip-unknown" in ended.err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["fs", "lake", "--to", "3"], "exactly one"),
        (["--to", "3"], "exactly one"),
        (["fs", "--to", "3", "--by-record-time"], "--by-record-time goes with --as-of alone"),
        (["--all", "--shift", "3"], "--all goes with --as-of alone"),
        (["fs", "--to", "3", "--as-of", "2023-11-14"], "in one way"),
        (["--as-of", "2023-11-14"], "some owners, or all connectors"),
    ],
)
def test_only_a_moment_is_a_place_for_several(desk, argv, said):
    ended = desk.run("move", *argv, "--yes")
    assert ended.code == 64
    assert said in ended.err


@pytest.mark.parametrize("option", ["--clean", "--only"])
def test_removed_options_of_mend_name_the_runbook(desk, option):
    ended = desk.run("mend", "fs", option, "--dry-run")
    assert ended.code == 64
    assert f"{option} was removed" in ended.err
    assert "docs/runbooks/offsets-topic-repartitioned.md" in ended.err
    assert option not in desk.run("mend", "--help").out
