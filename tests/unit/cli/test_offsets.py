"""`seamark offsets`: what its commands show, write, and how they end."""

from __future__ import annotations

import gc
import io
import json

import pytest

from seamark.cli.main import execute
from seamark.cli.session import Session
from seamark.core.offsets import Offset
from seamark.errors import UnreachableError
from seamark.kafka.groups import Committed
from tests.unit.cli.stubs import NOON, Outcome
from tests.unit.fleet.builders import connector, sink
from tests.unit.offsets.test_offsets import Environment, fs, topic

SPACED = b'["fs", {"filename": "/tmp/in.txt"}]'


class Desk:
    """A world with one source, one sink, a connector that is gone, and command lines."""

    def __init__(self):
        self.scan = topic(fs(4), fs(8), fs(1, "gone"))
        self.world = Environment(
            connector("fs"),
            sink("lake"),
            rest={
                "fs": (Offset({"filename": "/tmp/in.txt"}, {"position": 8}),),
                "lake": (Offset({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 5}),),
            },
            topics=[self.scan],
            groups={"connect-lake": {("t", 0): Committed(5)}},
        )

    def run(self, *argv):
        out, err = io.StringIO(), io.StringIO()
        session = Session(
            out=out, err=err, stdin=io.StringIO(), now=lambda: NOON, open_fleet=lambda name: self.world.fleet
        )
        return Outcome(execute(["offsets", *map(str, argv)], session=session), out.getvalue(), err.getvalue())


@pytest.fixture
def desk():
    return Desk()


def rows(text):
    return [line.split() for line in text.splitlines()]


def test_show_has_the_record_that_each_offset_comes_from(desk):
    ended = desk.run("show", "fs")
    assert ended.code == 0, ended.err
    place = desk.world.fleet.offsets.get("fs").stored[0].evidence.place
    head, titles, row = ended.out.splitlines()
    assert head == "fs · game · source · ✓ HEALTHY · 1 offset · from topic game-offsets"
    assert titles.split() == ["PARTITION", "OFFSET", "WRITTEN", "RECORD"]
    assert row.split()[:4] == ["filename", "/tmp/in.txt", "position", "8"]
    assert row.split()[-1] == place
    assert row.split()[-2] == "ago"


def test_show_names_what_is_odd_and_what_rest_said(desk):
    desk.scan.put(SPACED, {"position": 2}).put(b"not json", b"{}")
    desk.world.client.offsets["fs"] = (Offset({"filename": "/tmp/in.txt"}, None),)
    shown = desk.run("show", "fs").out
    assert "! duplicate-encoding  filename /tmp/in.txt: has 2 key encodings" in shown
    assert SPACED.decode() in shown
    assert "! rest-null  filename /tmp/in.txt: REST returned null" in shown
    assert "! bad-key  1 record of topic game-offsets without a known owner" in shown
    assert "not json" not in shown
    raw = desk.run("show", "fs", "--raw").out
    assert "not json → {}" in raw
    assert "records:" in raw
    body = json.loads(desk.run("show", "fs", "--raw", "-o", "json").out)
    assert {found["finding"] for found in body["findings"]} == {
        "duplicate-encoding",
        "unreadable-key",
        "rest-null",
        "bad-key",
    }
    assert len(body["records"]) == 2
    assert body["rest"] == [{"partition": {"filename": "/tmp/in.txt"}, "offset": None}]


def test_show_by_one_route_alone(desk):
    assert "through REST" in desk.run("show", "fs", "--route", "rest").out
    desk.world.client.offsets["fs"] = UnreachableError("later")
    assert desk.run("show", "fs", "--route", "store").code == 0


def test_show_marks_what_is_not_certain(desk):
    for key in (b'["fs",{"a":1,"b":1}]', b'["fs",{"b":1,"a":1}]'):
        desk.scan.put(key, {"v": len(desk.scan.log)})
    assert "v 4 (?)" in desk.run("show", "fs").out


def test_show_names_the_forgotten_and_groups_and_the_gone(desk):
    desk.scan.put(*fs(None))
    assert "deleted: filename /tmp/in.txt" in desk.run("show", "fs").out
    assert "group/connect-lake · 1 offset · from group connect-lake" in desk.run("show", "group/connect-lake").out
    gone = desk.run("show", "gone")
    assert gone.out.startswith("game/gone · 1 offset · from topic game-offsets")
    assert "! the connector does not exist" in gone.out


def test_nothing_of_a_record_reaches_a_terminal_raw(desk):
    desk.scan.put(("fs", {"filename": "\x1b[2J\u202e"}), {"position": "\x1b]0;x\x07"})
    desk.scan.put(b"\x1b[31m", b"\x1b")
    for argv in (["show", "fs", "--raw"], ["history", "fs"], ["show", "fs", "-o", "json"], ["export", "fs"]):
        shown = desk.run(*argv).out
        assert not {"\x1b", "\u202e", "\x07"} & set(shown)


def test_export_verify_and_diff(desk, tmp_path):
    file = tmp_path / "backup.json"
    ended = desk.run("export", "--all", "--out", file)
    assert (ended.code, ended.out) == (0, "")
    assert ended.err == f"3 offsets of 3 owners are in {file}\n"
    checked = desk.run("verify", file)
    assert checked.code == 0
    assert "✓ checksums match" in checked.out
    same = desk.run("diff", file, "--detailed-exitcode")
    assert (same.code, same.out.splitlines()[-1]) == (0, "0 differences, 3 equal")
    desk.scan.put(*fs(9))
    moved = desk.run("diff", file, "--detailed-exitcode")
    assert moved.code == 2
    assert "  ~ game/fs  filename /tmp/in.txt  position 8 → position 9" in moved.out
    assert desk.run("diff", file).code == 0
    other = tmp_path / "other.json"
    desk.run("export", "fs", "--out", other)
    both = json.loads(desk.run("diff", file, other, "-o", "json").out)
    assert [(found["owner"], found["difference"]) for found in both["items"]] == [
        ("game/fs", "changed"),
        ("game/gone", "removed"),
        ("game/lake", "removed"),
    ]
    again = desk.run("export", "--all", "--out", file)
    assert again.code == 1
    assert "never overwrites a file" in again.err


def test_export_to_standard_output_is_the_document_and_nothing_else(desk):
    desk.scan.put(SPACED, {"position": 2})
    ended = desk.run("export", "fs")
    assert json.loads(ended.out)["offsets"] == {
        "game/fs": [{"partition": {"filename": "/tmp/in.txt"}, "offset": {"position": 8}}]
    }
    assert "duplicate-encoding: fs: has 2 key encodings" in ended.err


def test_an_export_with_holes_says_so_and_ends_with_3(desk, tmp_path):
    desk.world.client.connectors = UnreachableError("no worker answers")
    file = tmp_path / "backup.json"
    ended = desk.run("export", "--all", "--out", file)
    assert ended.code == 3
    assert "no worker answers" in ended.err
    checked = desk.run("verify", file)
    assert checked.code == 0
    assert "! not exported: connectors of game: no worker answers" in checked.out


def test_the_collector_works_again_after_an_export(desk):
    assert gc.isenabled()
    assert desk.run("export", "fs").code == 0
    assert gc.isenabled()


def test_export_needs_to_know_whose(desk):
    assert desk.run("export").code == 64
    assert desk.run("export", "fs", "--all").code == 64


def test_verify_names_what_was_changed_and_ends_with_1(desk, tmp_path):
    file = tmp_path / "backup.json"
    desk.run("export", "--all", "--out", file)
    body = json.loads(file.read_text())
    body["offsets"]["game/fs"][0]["offset"]["position"] = 9
    file.write_text(json.dumps(body))
    ended = desk.run("verify", file)
    assert ended.code == 1
    assert "✗ game/fs: the checksum of its offsets and records does not match" in ended.out
    assert "was changed after it was exported" in ended.err
    assert desk.run("verify", tmp_path / "none").code == 64


def test_history_is_a_timeline(desk):
    desk.scan.put(*fs(None))
    lines = rows(desk.run("history", "fs").out)
    assert [line[3:5] for line in lines[2:]] == [["position", "4"], ["position", "8"], ["forgotten", line_place(desk)]]
    assert len(rows(desk.run("history", "fs", "--limit", "1").out)) == 3
    body = json.loads(desk.run("history", "fs", "-o", "json").out)
    assert [item["offset"] for item in body["items"]] == [{"position": 4}, {"position": 8}, None]
    assert body["items"][0]["evidence"]["key"]
    assert desk.run("history", "lake").code == 5


def line_place(desk):
    return desk.world.fleet.offsets.history("fs")[-1].evidence.place


def test_orphans_have_their_age(desk):
    ended = desk.run("orphans")
    assert rows(ended.out)[0] == ["OWNER", "OFFSETS", "WRITTEN", "STORE"]
    assert rows(ended.out)[1][:2] == ["game/gone", "1"]
    assert desk.run("orphans", "-o", "name").out == "game/gone\n"
    desk.world.client.connectors = (*desk.world.client.connectors, connector("gone"))
    none = desk.run("orphans")
    assert (none.code, none.out, none.err) == (0, "", "no orphaned offsets\n")
