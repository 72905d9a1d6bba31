"""`seamark copies`: what it shows, asks and does, and how it ends."""

from __future__ import annotations

import io
import json

import pytest

from seamark.cli.copy_options import CopyLines, parse_confs, render_tick
from seamark.cli.main import execute
from seamark.cli.session import Session
from seamark.copies.run.runner import CopyTick
from seamark.errors import UsageError
from tests.unit.changes.brokers import FakeBrokers
from tests.unit.cli.stubs import NOON, Outcome, Terminal
from tests.unit.copies.copying import FakeLogs, plant, sample_keys
from tests.unit.fleet.living import LivingConnect, open_living_fleet


class Desk:
    def __init__(self, folder, monkeypatch):
        self.folder = folder
        self.brokers, self.logs, self.game = FakeBrokers(), FakeLogs(), LivingConnect()
        self.spark = plant(monkeypatch, self.brokers, self.logs)
        self.brokers.add_topic("t", partitions=4, records=1000)
        self.logs.keys["t"] = sample_keys(4)
        self.protected = False

    def run(self, *argv, typed=None, terminal=False):
        out, err = io.StringIO(), Terminal() if terminal else io.StringIO()
        session = Session(
            out=out,
            err=err,
            stdin=io.StringIO() if typed is None else Terminal(typed),
            now=lambda: NOON,
            open_fleet=lambda name: open_living_fleet(
                self.folder, self.game, brokers=self.brokers, protected=self.protected
            ),
        )
        return Outcome(execute(argv, session=session), out.getvalue(), err.getvalue())

    def save(self, *argv):
        file = self.folder / "plan.json"
        ended = self.run("copies", "plan", "t", "--partitions", "4:2", "--out", str(file), *argv)
        assert ended.code == 0, ended.err
        return file, json.loads(file.read_text())["id"]


@pytest.fixture
def desk(tmp_path, monkeypatch):
    return Desk(tmp_path, monkeypatch)


def test_plan_is_shown_and_changes_nothing(desk):
    ended = desk.run("copies", "plan", "t", "--partitions", "4:2")
    assert ended.code == 0
    assert "t (4 partitions) → t-2 (2 partitions, new)" in ended.out
    assert "--out FILE" in ended.err
    assert desk.brokers.writes == []


def test_plan_is_saved_and_names_its_run(desk):
    file, plan = desk.save("--slice-records", "1000")
    assert json.loads(file.read_text())["target"]["topic"] == "t-2"
    shown = json.loads(desk.run("copies", "plan", "t", "--partitions", "2", "-o", "json").out)
    assert (shown["kind"], shown["records"], shown["plan"]["format_version"]) == ("CopyPlan", 4000, 1)
    assert len(plan) == 26


def test_refused_plan_ends_with_5_and_says_why(desk):
    desk.logs.keys["t"] = [(n % 4, str(n // 2).encode()) for n in range(90)]
    ended = desk.run("copies", "plan", "t", "--partitions", "2")
    assert ended.code == 5
    assert "✗ refused: the partitioner of the source is unknown" in ended.out


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (["plan", "t"], 64, "--partitions"),
        (["plan", "t", "--partitions", "3:2"], 64, "has 4 partitions, not 3"),
        (["plan", "x", "--partitions", "2"], 1, "topic x does not exist"),
        (["run", "01NOPE", "--yes"], 1, "copy 01NOPE does not exist"),
        (["run", "./no/file.json", "--yes"], 64, "can't be read"),
        (["run", "01NOPE", "--conf", "x=y"], 64, "for --conf: expected KEY=VALUE"),
        (["run", "01NOPE", "--rate", "0"], 64, "--rate"),
        (["status", "01NOPE"], 1, "copy 01NOPE does not exist"),
        (["verify", "01NOPE", "--level", "some"], 64, "--level"),
        (["verify", "01NOPE"], 1, "copy 01NOPE does not exist"),
    ],
)
def test_wrong_calls_end_with_their_code_and_a_next_step(desk, argv, code, words):
    ended = desk.run("copies", *argv)
    assert ended.code == code
    assert words in ended.err
    assert "hint:" in ended.err or code == 64


def test_run_asks_before_the_first_time_only(desk):
    file, plan = desk.save("--slice-records", "1000")
    refused = desk.run("copies", "run", str(file))
    assert (refused.code, desk.brokers.writes) == (64, [])
    assert "--yes" in refused.err
    denied = desk.run("copies", "run", str(file), typed="no\n")
    assert (denied.code, desk.brokers.writes) == (130, [])
    ended = desk.run("copies", "run", str(file), typed="yes\n")
    assert ended.code == 0, ended.err
    assert "✓ COPIED" in ended.out
    assert f"next: seamark copies verify {plan}" in ended.out
    again = desk.run("copies", "run", plan)
    assert again.code == 0
    assert "nothing was written" in again.err


def test_protected_context_wants_the_name_of_the_target(desk):
    file, _ = desk.save()
    desk.protected = True
    assert desk.run("copies", "run", str(file), typed="yes\n").code == 130
    assert desk.run("copies", "run", str(file), typed="t-2\n").code == 0


def test_stopped_run_says_how_to_go_on(desk):
    file, plan = desk.save("--slice-records", "1000")
    desk.spark.most = 2
    ended = desk.run("copies", "run", str(file), "--yes")
    assert ended.code == 130
    assert f"hint:  continue: seamark copies run {plan};" in ended.err
    status = desk.run("copies", "status", plan[:10])
    assert "2 of 5 slices done" in status.out
    assert f"next: seamark copies run {plan}" in status.out
    listed = desk.run("copies", "status")
    assert [line.split()[:5] for line in listed.out.splitlines()[1:]] == [[plan, "t", "t-2", "▲", "UNFINISHED"]]
    desk.spark.most = None
    assert desk.run("copies", "run", plan).code == 0
    assert desk.run("copies", "status", "-o", "name").out == f"{plan}\n"


def test_options_of_spark_reach_it(desk, tmp_path):
    file, _ = desk.save()
    argv = ("--master", "local[3]", "--jars", str(tmp_path), "--conf", "spark.a=b=c", "--conf", "spark.d=")
    assert desk.run("copies", "run", str(file), "--yes", *argv).code == 0
    ((options, _),) = desk.spark.sessions
    assert (options.master, options.jars, options.conf) == ("local[3]", tmp_path, {"spark.a": "b=c", "spark.d": ""})


def test_status_without_any_copy_says_so(desk):
    ended = desk.run("copies", "status")
    assert (ended.code, ended.out) == (0, "")
    assert "no copies are registered" in ended.err
    assert json.loads(desk.run("copies", "status", "-o", "json").out)["items"] == []


def test_settings_of_spark_are_given_once():
    with pytest.raises(UsageError, match="twice"):
        parse_confs(("spark.a=1", "spark.a=2"))


def test_line_of_progress_has_rate_and_time_left():
    tick = CopyTick(2, 4, 2000, 4000, rate=1234.4, left_seconds=65.0)
    assert render_tick(tick) == "  slice 2 of 4 · 2,000 of 4,000 (50 %) · 1,234 records/s, 1 min left"
    assert "left" not in render_tick(CopyTick(4, 4, 4000, 4000, rate=10.0, left_seconds=0.0))


def test_progress_is_drawn_over_on_a_terminal_and_written_now_and_then_elsewhere():
    ticks = [CopyTick(done, 3, done * 10, 30, rate=5.0, left_seconds=1.0) for done in (1, 2, 3)]
    terminal, pipe = Terminal(), io.StringIO()
    for stream in (terminal, pipe):
        lines = CopyLines(Session(out=io.StringIO(), err=stream))
        for tick in ticks:
            lines.ticked(tick)
        lines.said("done")
        lines.close()
    assert terminal.getvalue().count("\r\x1b[K") == 3
    assert terminal.getvalue().endswith("\ndone\n")
    # The first and the last: the others came within ten seconds.
    assert pipe.getvalue().count("slice") == 2
    quiet = io.StringIO()
    CopyLines(Session(out=io.StringIO(), err=quiet, quiet=True)).ticked(ticks[0])
    assert quiet.getvalue() == ""
