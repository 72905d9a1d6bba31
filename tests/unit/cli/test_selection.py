"""Choosing connectors: names, globs, expressions, states, spec files and lists of names, for every verb."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import seamark.specs
from seamark.cli.main import execute
from seamark.cli.session import Session
from seamark.connectors.model import build_selection
from seamark.errors import UsageError
from tests.unit.cli.stubs import NOON, connector
from tests.unit.cli.stubs import Outcome as Ended
from tests.unit.fleet.living import SOURCE_CONFIG, LivingConnect, open_living_fleet

CONNECTORS = [connector("a"), connector("b"), connector("a[1]"), connector("b", cluster="lake")]


def owners(found):
    return [one.owner for one in found]


@pytest.mark.parametrize(
    ("listed", "names", "picked"),
    [
        (["b"], [], ["game/b", "lake/b"]),
        (["lake/b"], [], ["lake/b"]),
        (["a[1]"], [], ["game/a[1]"]),
        (["lake/b"], ["a"], ["game/a", "lake/b"]),
        ([], [], []),
        (["*"], [], []),
    ],
)
def test_names_of_a_file_are_names_and_no_globs(listed, names, picked):
    assert owners(build_selection(names, listed=listed).pick(CONNECTORS)) == picked


def test_a_name_that_looks_like_a_glob_is_found_too():
    assert owners(build_selection(["a[1]"]).pick(CONNECTORS)) == ["game/a[1]"]


def test_an_empty_file_is_not_the_same_as_no_file():
    assert build_selection().is_empty
    assert not build_selection(listed=[]).is_empty


def test_states_narrow_down_what_files_name():
    selection = build_selection(listed=["a", "b"], states=["failed"])
    assert selection.pick(CONNECTORS) == ()


def test_plain_names_of_both_kinds_may_be_missing():
    selection = build_selection(["x", "y*"], listed=["z", "a"])
    assert selection.find_missing(CONNECTORS) == ("x", "z")


@given(
    names=st.lists(st.sampled_from(["a", "b", "lake/*", "?", "x"])),
    listed=st.none() | st.lists(st.sampled_from(["a", "lake/b", "y"])),
)
def test_a_connector_is_picked_by_any_of_the_ways_and_by_no_other(names, listed):
    picked = set(owners(build_selection(names, listed=listed).pick(CONNECTORS)))
    if not names and listed is None:
        assert picked == set(owners(CONNECTORS))
        return
    ways = [build_selection([name]) for name in names] + [build_selection(listed=[name]) for name in listed or ()]
    assert picked == {owner for way in ways for owner in owners(way.pick(CONNECTORS))}


# --- through the command line


class Desk:
    def __init__(self, folder):
        self.folder = folder
        self.game = LivingConnect()
        for name in ("a", "b", "c"):
            self.game.add(name, SOURCE_CONFIG, failed=[0])

    def run(self, *argv, stdin=""):
        out, err = io.StringIO(), io.StringIO()
        session = Session(
            out=out,
            err=err,
            stdin=io.StringIO(stdin),
            now=lambda: NOON,
            open_fleet=lambda name: open_living_fleet(self.folder, self.game),
        )
        return Ended(execute(argv, session=session), out.getvalue(), err.getvalue())

    def write(self, text, name):
        path = self.folder / name
        path.write_text(text)
        return str(path)


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


VERBS = ["pause", "stop", "restart", "delete"]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_takes_a_list_of_names(desk, verb):
    names = desk.write("# these two\n\n  b \ngame/c\nb\n", "names.txt")
    ended = desk.run("connectors", verb, "--names-from", names, "--dry-run")
    assert ended.code == 0, ended.err
    assert "2 connectors" in ended.out
    assert "connector/game/a " not in ended.out
    piped = desk.run("connectors", verb, "--names-from", "-", "--dry-run", stdin="b\nc\n")
    assert (piped.code, piped.out) == (0, ended.out)


def test_list_resume_and_heal_take_it_too(desk):
    names = desk.write("b\n", "names.txt")
    assert desk.run("connectors", "list", "--names-from", names, "-o", "name").out == "game/b\n"
    assert "restart the failed tasks of b" in desk.run("connectors", "heal", "--names-from", names, "--dry-run").out
    desk.game.states["b"] = "PAUSED"
    assert "resume b" in desk.run("connectors", "resume", "--names-from", names, "--dry-run").out


def test_names_and_lists_add_up(desk):
    names = desk.write("b\n", "names.txt")
    ended = desk.run("connectors", "pause", "c", "--names-from", names, "-y")
    assert ended.code == 0
    assert desk.game.states == {"a": "RUNNING", "b": "PAUSED", "c": "PAUSED"}


def test_a_name_in_a_list_that_is_nowhere_is_an_error(desk):
    names = desk.write("b\nnope\n", "names.txt")
    ended = desk.run("connectors", "pause", "--names-from", names, "--yes")
    assert ended.code == 1
    assert "connector nope does not exist" in ended.err
    assert desk.game.writes == 0
    listed = desk.run("connectors", "list", "--names-from", names, "-o", "name")
    assert (listed.code, listed.out) == (3, "game/b\n")


def test_an_empty_list_changes_nothing(desk):
    ended = desk.run("connectors", "delete", "--names-from", "-", "--yes", stdin="\n# none\n")
    assert ended.code == 1
    assert "no connector matches" in ended.err
    assert desk.game.writes == 0


def test_a_list_that_can_not_be_read_is_a_usage_error(desk):
    assert desk.run("connectors", "pause", "--names-from", str(desk.folder / "nope")).code == 64
    (desk.folder / "bytes").write_bytes(b"\xff\xfe\x00")
    ended = desk.run("connectors", "pause", "--names-from", str(desk.folder / "bytes"))
    assert ended.code == 64
    assert "is not text in UTF-8" in ended.err


def test_many_plain_names_are_one_listing(desk):
    for number in range(40):
        desk.game.add(f"n{number:02}", SOURCE_CONFIG)
    names = desk.write("".join(f"n{number:02}\n" for number in range(40)), "names.txt")
    assert desk.run("connectors", "pause", "--names-from", names, "-y").code == 0
    assert desk.game.calls["read_connectors"] >= 1
    assert sum(state == "PAUSED" for state in desk.game.states.values()) == 40


def stub_spec(monkeypatch, **names):
    """Stand in for `load_spec`: what is asked of it, and what it gives."""
    asked = []

    def load_spec(paths, *, environ, allow_python=False, context=None):
        asked.append(([str(path) for path in paths], allow_python))
        return SimpleNamespace(connectors=[SimpleNamespace(owner=owner) for owner in names.get("owners", ())])

    monkeypatch.setattr(seamark.specs, "load_spec", load_spec, raising=False)
    return asked


def test_spec_files_name_connectors(desk, monkeypatch):
    asked = stub_spec(monkeypatch, owners=["a", "game/b"])
    ended = desk.run("connectors", "pause", "-f", "config", "--file", "more.yaml", "--allow-python", "--yes")
    assert ended.code == 0, ended.err
    assert asked == [(["config", "more.yaml"], True)]
    assert desk.game.states == {"a": "PAUSED", "b": "PAUSED", "c": "RUNNING"}


def test_a_wrong_expression_is_told_before_a_file_is_read(desk, monkeypatch):
    asked = stub_spec(monkeypatch)
    assert desk.run("connectors", "list", "-e", "(", "-f", "config").code == 64
    assert asked == []


def test_a_broken_spec_file_is_told_by_itself(desk, monkeypatch):
    def load_spec(paths, *, environ, allow_python=False, context=None):
        raise UsageError("config/a.yaml:3:1 is broken", hint="mend it")

    monkeypatch.setattr(seamark.specs, "load_spec", load_spec, raising=False)
    ended = desk.run("connectors", "list", "-f", "config", "-o", "json")
    assert ended.code == 64
    assert json.loads(ended.err)["message"] == "config/a.yaml:3:1 is broken"


def test_a_folder_of_real_spec_files_names_connectors(desk):
    folder = desk.folder / "config"
    folder.mkdir()
    for name in ("a", "c"):
        body = {"name": name, "config": {key: str(value) for key, value in SOURCE_CONFIG.items()}}
        (folder / f"{name}.json").write_text(json.dumps(body))
    ended = desk.run("connectors", "list", "-f", str(folder), "-o", "name")
    assert (ended.code, ended.out) == (0, "game/a\ngame/c\n"), ended.err
