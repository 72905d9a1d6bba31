"""heal, rename, plugins and loggers: what they show, ask, do, and how they end."""

from __future__ import annotations

import io
import json
from datetime import timedelta

import pytest

from seamark.cli.main import execute
from seamark.cli.session import Session
from seamark.connect.model import Plugin
from seamark.core.offsets import Offset
from tests.unit.cli.stubs import NOON, Terminal
from tests.unit.cli.stubs import Outcome as Ended
from tests.unit.connectors.operating import W1, W2, OperatedConnect
from tests.unit.fleet.living import SINK, SOURCE, SOURCE_CONFIG, open_living_fleet

LONG = "org.apache.kafka.connect.runtime"


class Desk:
    """A fleet that lives, a clock that moves when somebody sleeps, and command lines."""

    def __init__(self, folder):
        self.folder = folder
        self.game = OperatedConnect()
        self.now = NOON
        self.slept = 0.0
        self.on_sleep = lambda: None

    def sleep(self, seconds):
        self.slept += seconds
        self.now += timedelta(seconds=seconds)
        assert self.slept < 10_000, "it never ends"
        self.on_sleep()

    def run(self, *argv, typed=None, **changes):
        out, err = io.StringIO(), io.StringIO()
        session = Session(
            out=out,
            err=err,
            stdin=io.StringIO() if typed is None else Terminal(typed),
            now=lambda: self.now,
            sleep=self.sleep,
            open_fleet=lambda name: open_living_fleet(self.folder, self.game, urls=(W1, W2), **changes),
        )
        return Ended(execute(argv, session=session), out.getvalue(), err.getvalue())

    def changes(self):
        return self.run("journal", "list", "-o", "name").out.split()


@pytest.fixture
def desk(tmp_path):
    made = Desk(tmp_path)
    made.game.add("a", SOURCE_CONFIG)
    made.game.add("b", SOURCE_CONFIG, failed=[0])
    return made


# --- heal


def test_heal_restarts_what_has_failed_in_one_change_and_ends_with_0(desk):
    ended = desk.run("connectors", "heal", "-y")
    assert ended.code == 0, ended.err
    assert desk.game.calls["restart"] == 1
    assert len(desk.changes()) == 1
    assert [line.split() for line in ended.out.splitlines()] == [
        ["CONNECTOR", "OUTCOME", "RESTARTS", "ERROR"],
        ["game/b", "✓", "runs", "1", "task", "0:", "without", "a", "trace"],
    ]
    assert "game/b: runs again, after 1 restart" in ended.err
    assert 30 <= desk.slept < 40


def test_heal_says_that_nothing_has_failed(desk):
    desk.game.failed_tasks["b"] = set()
    ended = desk.run("connectors", "heal")
    assert (ended.code, ended.out, ended.err) == (0, "", "no failed connectors\n")
    assert desk.slept == 0


def keep_failing(desk, name="b"):
    """A task that is seen to run and fails a moment later."""

    def fail():
        desk.game.failed_tasks[name] = {0}

    desk.on_sleep = fail


def test_heal_gives_up_says_why_and_ends_with_3(desk):
    keep_failing(desk)
    ended = desk.run("connectors", "heal", "--max-restarts", "2", "--backoff", "10s", "--yes")
    assert ended.code == 3
    assert desk.game.calls["restart"] == 2
    assert len(desk.changes()) == 2
    assert "✗ given up" in ended.out
    assert "error: gave up on game/b\ncause: game/b: task 0: without a trace\n" in ended.err
    assert 10 <= desk.slept < 30


def test_heal_once_restarts_once(desk):
    keep_failing(desk)
    ended = desk.run("connectors", "heal", "--once", "-y", "-o", "json")
    assert ended.code == 3
    assert desk.game.calls["restart"] == 1
    (item,) = json.loads(ended.out)["items"]
    assert (item["owner"], item["outcome"], item["restarts"]) == ("game/b", "given up", 1)


def test_heal_asks_once_and_shows_the_plan(desk):
    refused = desk.run("connectors", "heal", typed="no\n")
    assert refused.code == 130
    assert "restarts task 0" in refused.out
    assert desk.game.writes == 0
    assert desk.run("connectors", "heal").code == 64
    assert desk.game.writes == 0
    keep_failing(desk)
    ended = desk.run("connectors", "heal", "--max-restarts", "2", typed="yes\n")
    assert (ended.code, desk.game.calls["restart"]) == (3, 2)
    assert ended.err.count("Type yes") == 1


def test_heal_dry_run_shows_the_first_round(desk):
    ended = desk.run("connectors", "heal", "--dry-run")
    assert ended.code == 0
    assert "connector/game/b   restarts task 0" in ended.out
    assert desk.game.writes == 0
    assert desk.run("connectors", "heal", "a", "--dry-run").err == "no failed connectors\n"


def test_heal_takes_a_selection_and_leaves_the_rest_alone(desk):
    desk.game.add("c", SOURCE_CONFIG, failed=[0])
    assert desk.run("connectors", "heal", "b", "-y").code == 0
    assert desk.game.failed_tasks["c"] == {0}
    assert desk.run("connectors", "heal", "nope", "-y").code == 1
    assert desk.run("connectors", "heal", "--state", "failed", "-y").code == 0
    assert desk.game.failed_tasks["c"] == set()


def test_heal_watch_goes_on_until_ctrl_c(desk):
    naps = []

    def nap():
        naps.append(desk.slept)
        if len(naps) == 20:
            raise KeyboardInterrupt

    desk.on_sleep = nap
    ended = desk.run("connectors", "heal", "--watch", "--backoff", "5s", "-y")
    assert ended.code == 130
    assert "✓ runs" in ended.out
    asked = desk.run("connectors", "heal", "--watch", typed="no\n", protected=True)
    assert asked.code == 130
    assert "Type dev to restart whatever fails, 5 times at most" in asked.err


def test_heal_can_not_do_both(desk):
    assert desk.run("connectors", "heal", "--once", "--watch").code == 64


# --- rename


def test_rename_is_refused_where_a_place_is_lost_and_done_when_that_is_accepted(desk):
    desk.game.version = "3.6.2"
    desk.game.offsets["a"] = (Offset({"filename": "/in"}, {"position": 7}),)
    refused = desk.run("connectors", "rename", "a", "z", "--yes")
    assert refused.code == 5
    assert "error: renamed to z, connector a would lose its offsets; no changes were made\n" in refused.err
    assert "--allow-offset-loss" in refused.err
    shown = desk.run("connectors", "rename", "a", "z", "--dry-run")
    assert shown.code == 0
    assert "! lost: 1 source offset of a in offsets" in shown.out
    assert desk.game.writes == 0
    ended = desk.run("connectors", "rename", "a", "z", "--allow-offset-loss", typed="a\n")
    assert ended.code == 0, ended.err
    assert set(desk.game.configs) == {"b", "z"}


# --- plugins


def test_plugins_are_listed_with_the_workers_that_lack_them(desk):
    desk.game.plugins[W2] = [Plugin(SOURCE, "source", "4.2.0")]
    ended = desk.run("plugins", "list")
    assert ended.code == 0
    lines = [line.split(maxsplit=4) for line in ended.out.splitlines()[1:]]
    assert lines == [
        ["game", SINK, "sink", "4.3.1", f"▲ 1 of 2   missing on {W2}"],
        ["game", SOURCE, "source", "4.2.0", f"▲ 1 of 2   4.3.1 on {W1}"],
        ["game", SOURCE, "source", "4.3.1", f"▲ 1 of 2   4.2.0 on {W2}"],
    ]
    items = json.loads(desk.run("plugins", "list", "-o", "json").out)["items"]
    assert items[0]["missing"] == [W2]
    assert items[1]["other_versions"] == {W1: "4.3.1"}


def test_plugins_are_chosen_by_class_and_by_difference(desk):
    assert desk.run("plugins", "list", "FileStreamSink*", "-o", "name").out == f"{SINK}\n"
    assert desk.run("plugins", "list", SOURCE, "-o", "name").out == f"{SOURCE}\n"
    same = desk.run("plugins", "list", "--mismatched")
    assert (same.code, same.out, same.err) == (0, "", "no plugins\n")


def test_a_worker_that_is_away_makes_the_plugins_partial(desk):
    desk.game.away = {W2}
    ended = desk.run("plugins", "list")
    assert ended.code == 3
    assert f"error: can't reach {W2}" in ended.err
    desk.game.away = {W1, W2}
    assert desk.run("plugins", "list").code == 6


# --- loggers


def test_loggers_are_listed_by_level_and_worker(desk):
    desk.game.loggers[W1][LONG] = "DEBUG"
    ended = desk.run("loggers", "list")
    assert ended.code == 0
    assert [line.split() for line in ended.out.splitlines()[1:]] == [
        ["game", "root", "INFO", "all", "2"],
        ["game", LONG, "DEBUG", W1],
    ]
    assert desk.run("loggers", "list", "org.*", "-o", "name").out == f"{LONG}\n"
    desk.game.away = {W2}
    assert desk.run("loggers", "list").code == 3
    desk.game.away = {W1, W2}
    assert desk.run("loggers", "list").code == 6


def test_a_level_is_told_before_and_after_and_undone(desk):
    ended = desk.run("loggers", "set", LONG, "debug", "--all-workers", "--yes")
    assert ended.code == 0, ended.err
    assert f'{LONG} on {W1}  "INFO" → "DEBUG"' in ended.out
    assert "! a worker that restarts returns to the levels of its own log config" in ended.out
    assert {levels[LONG] for levels in desk.game.loggers.values()} == {"DEBUG"}
    assert desk.run("journal", "undo", desk.changes()[0], "--yes").code == 0
    assert {levels[LONG] for levels in desk.game.loggers.values()} == {"INFO"}


def test_a_level_needs_its_workers(desk):
    assert desk.run("loggers", "set", "root", "DEBUG", "-y").code == 64
    assert desk.run("loggers", "set", "root", "LOUD", "-y", "--all-workers").code == 64
    assert desk.run("loggers", "set", "root", "DEBUG", "--worker", W1, "--all-workers", "-y").code == 64
    assert desk.run("loggers", "set", "root", "DEBUG", "--worker", W1, "-y").code == 0
    assert (desk.game.loggers[W1]["root"], desk.game.loggers[W2]["root"]) == ("DEBUG", "INFO")
