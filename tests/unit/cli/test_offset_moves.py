"""offsets move, forget, import and copy: what they show, ask, do, and how they end."""

from __future__ import annotations

import io
import json

import pytest

from seamark.cli.main import execute
from seamark.cli.session import Session
from tests.unit.cli.stubs import NOON, Outcome, Terminal
from tests.unit.fleet.living import SINK_CONFIG, SOURCE_CONFIG
from tests.unit.fleet.moving import Place

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
