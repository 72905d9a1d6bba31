"""Changing commands from plan to result: what they show, ask, do, and how they end."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import stat

import pytest

from seamark.changes.actor import Actor
from seamark.changes.file_journal import FileJournal
from seamark.changes.interruption import set_hook
from seamark.changes.journal import Ending
from seamark.changes.outcome import ChangeResult, Outcome, StepResult
from seamark.cli.confirm import build_errors, run_change
from seamark.cli.main import execute
from seamark.cli.session import Session
from seamark.errors import JournalError, RejectedError, UndecidableError, UnreachableError, UnreadableOutcomeError
from tests.unit.cli.stubs import NOON, Terminal
from tests.unit.cli.stubs import Outcome as Ended
from tests.unit.fleet.living import SINK_CONFIG, SOURCE_CONFIG, LivingConnect, open_living_fleet
from tests.unit.offsets.moving import Place

PASSWORD = "hunter2-canary"


class Desk:
    """A fleet that lives, and command lines typed at it."""

    def __init__(self, folder):
        self.folder = folder
        self.game = LivingConnect()
        self.changes = {}

    def fleet(self, **more):
        return open_living_fleet(self.folder, self.game, **self.changes, **more)

    def run(self, *argv, typed=None, **more):
        """Run one command line. `typed` is what a person types at a terminal; without it there is none."""
        out, err = io.StringIO(), io.StringIO()
        stdin = io.StringIO() if typed is None else Terminal(typed)
        session = Session(out=out, err=err, stdin=stdin, now=lambda: NOON, open_fleet=lambda name: self.fleet(**more))
        return Ended(execute(argv, session=session), out.getvalue(), err.getvalue())

    def newest(self):
        return self.run("journal", "list", "--limit", "1", "-o", "name").out.strip()

    def write(self, text, name="c.json"):
        path = self.folder / name
        path.write_text(text if isinstance(text, str) else json.dumps(text))
        return str(path)


@pytest.fixture
def desk(tmp_path):
    made = Desk(tmp_path)
    made.game.add("a", SOURCE_CONFIG)
    made.game.add("b", SOURCE_CONFIG)
    return made


# --- the plan, the question


def test_dry_run_shows_the_plan_and_changes_nothing(desk):
    ended = desk.run("connectors", "pause", "a", "--dry-run")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines() == [
        "Plan for context dev: pause a",
        "  ~ connector/game/a   pause: 1 task stays assigned",
        '      state  "RUNNING" → "PAUSED"',
        "Plan: 1 to change. No changes were made.",
    ]
    assert desk.game.writes == 0


@pytest.mark.parametrize(("flags", "typed"), [(["--yes"], None), ([], "yes\n"), ([], "no\n")])
def test_a_plan_that_may_be_applied_does_not_say_that_nothing_changed(desk, flags, typed):
    lines = desk.run("connectors", "pause", "a", *flags, typed=typed).out.splitlines()
    assert "Plan: 1 to change." in lines
    assert not any("No changes were made" in line for line in lines)


def test_a_saved_plan_made_no_changes(desk):
    out = desk.run("connectors", "pause", "a", "--out", str(desk.folder / "plan.json")).out
    assert out.endswith("Plan: 1 to change. No changes were made.\n")
    assert desk.game.writes == 0


def test_yes_is_asked_for_and_only_yes_goes_on(desk):
    ended = desk.run("connectors", "pause", "a", typed="y\n")
    assert ended.code == 130
    assert "Type yes to continue, or use --yes: " in ended.err
    assert "error: not confirmed; no changes were made" in ended.err
    assert desk.game.writes == 0
    assert desk.run("connectors", "pause", "a", typed="yes\n").code == 0
    assert desk.game.states["a"] == "PAUSED"


@pytest.mark.parametrize("flags", [[], ["--no-input"]])
def test_without_a_terminal_nobody_is_asked(desk, flags):
    ended = desk.run("connectors", "pause", "a", *flags, typed=None if not flags else "yes\n")
    assert ended.code == 64
    assert "hint:  review the plan with --dry-run, then pass --yes" in ended.err
    assert desk.game.writes == 0


@pytest.mark.parametrize(("names", "word"), [(["a"], "a"), (["a", "b"], "dev")])
def test_a_delete_wants_the_name_typed(desk, names, word):
    assert desk.run("connectors", "delete", *names, typed="yes\n").code == 130
    ended = desk.run("connectors", "delete", *names, typed=f"{word}\n")
    assert f"Type {word} to continue" in ended.err
    assert ended.code == 0
    assert set(desk.game.configs) == {"a", "b"} - set(names)


def test_a_protected_context_wants_the_name_typed_for_everything(desk):
    desk.changes = {"protected": True}
    assert desk.run("connectors", "pause", "a", typed="yes\n").code == 130
    assert desk.run("connectors", "pause", "a", typed="a\n").code == 0
    assert desk.run("connectors", "resume", "a", "--yes").code == 64
    assert desk.run("connectors", "resume", "a", "--confirm", "a").code == 0


def test_result_names_the_change_and_its_way_back(desk):
    ended = desk.run("connectors", "stop", "a", "-y")
    change = desk.newest()
    assert ended.out.splitlines()[-1] == f"✓ Change {change} done in 0 ms. Undo: seamark journal undo {change}"
    assert ended.err.splitlines() == [f"Change {change}, 1 step", "  ✓ stop connector/game/a: its tasks end"]
    assert desk.run("connectors", "stop", "b", "-y", "-q").err == ""


def test_nothing_to_do_asks_nobody(desk):
    ended = desk.run("connectors", "resume", "a")
    assert (ended.code, ended.err) == (0, "")
    assert "No changes." in ended.out


def test_json_gives_one_document_and_shows_the_plan_beside_it(desk):
    ended = desk.run("connectors", "pause", "a", "-y", "-o", "json")
    document = json.loads(ended.out)
    assert (document["kind"], document["ending"]) == ("Change", "done")
    assert [step["outcome"] for step in document["steps"]] == ["done"]
    assert "pause: 1 task stays assigned" in ended.err
    plan = json.loads(desk.run("connectors", "stop", "b", "--dry-run", "-o", "json").out)
    assert (plan["kind"], plan["effects"][0]["subject"]) == ("Plan", "connector/game/b")


# --- which connectors


@pytest.mark.parametrize(
    ("argv", "paused"),
    [(["*"], "ab"), (["-e", "^b$"], "b"), (["a", "b"], "ab"), (["game/a"], "a"), (["a", "--cluster", "game"], "a")],
)
def test_verbs_take_names_globs_and_expressions(desk, argv, paused):
    assert desk.run("connectors", "pause", *argv, "-y").code == 0
    assert "".join(name for name, state in desk.game.states.items() if state == "PAUSED") == paused


def test_a_state_selects_too(desk):
    desk.game.add("c", SOURCE_CONFIG, state="PAUSED")
    assert desk.run("connectors", "resume", "--state", "paused", "-y").code == 0
    assert desk.game.states["c"] == "RUNNING"


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        ([], 64, "no connector was passed"),
        (["zzz"], 1, "connector zzz does not exist"),
        (["zzz", "a*"], 1, "connector zzz does not exist"),
        (["zzz*"], 1, "no connector matches"),
    ],
)
def test_who_is_not_there_is_not_paused(desk, argv, code, said):
    ended = desk.run("connectors", "pause", *argv, "-y")
    assert (ended.code, ended.out) == (code, "")
    assert said in ended.err
    assert desk.game.writes == 0


def test_a_glob_over_a_silent_cluster_is_refused(desk):
    desk.game.failing["read_connectors", ""] = UnreachableError("game is silent")
    ended = desk.run("connectors", "pause", "*", "-y")
    assert (ended.code, ended.err) == (6, "error: game is silent\n")


# --- create and change


def test_create_takes_connects_own_file(desk):
    file = desk.write({"name": "new", "config": SOURCE_CONFIG | {"tasks.max": 2}, "initial_state": "STOPPED"})
    ended = desk.run("connectors", "create", "-f", file, "-y")
    assert ended.code == 0, ended.err
    assert desk.game.configs["new"]["tasks.max"] == "2"
    assert desk.game.states["new"] == "STOPPED"


def test_create_takes_a_bare_config_with_a_name(desk):
    file = desk.write(SOURCE_CONFIG)
    assert desk.run("connectors", "create", "-f", file, "-y").code == 64
    assert desk.run("connectors", "create", "-f", file, "--name", "new", "--initial-state", "paused", "-y").code == 0
    assert desk.game.states["new"] == "PAUSED"


TWO = """\
connectors:
  - {name: new, state: paused, config: &c {connector.class: FileStreamSource, topic: "${{ context.topic }}"}}
  - {name: a, config: {<<: *c, tasks.max: 2}}
"""


def test_create_and_update_take_yaml_and_properties(desk):
    desk.changes = {"spec_values": {"topic": "t-dev"}}
    yaml = desk.write(TWO, "two.yaml")
    ended = desk.run("connectors", "create", "-f", yaml, "--name", "new", "-y")
    assert ended.code == 0, ended.err
    assert (desk.game.configs["new"]["topic"], desk.game.states["new"]) == ("t-dev", "PAUSED")
    assert desk.run("connectors", "update", "a", "-f", yaml, "-y").code == 0
    assert desk.game.configs["a"] == {
        "name": "a", "connector.class": "FileStreamSource", "topic": "t-dev", "tasks.max": "2"
    }  # fmt: skip
    file = desk.write("name=old\nconnector.class=FileStreamSource\ntopic=t\n", "old.properties")
    assert desk.run("connectors", "create", "-f", file, "-y").code == 0
    assert desk.game.configs["old"]["topic"] == "t"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["create"], "two.yaml has 2 connectors; expected one"),
        (["create", "--name", "c"], "two.yaml has 0 connectors named c; expected one"),
        (["update", "b"], "two.yaml has 0 connectors named b; expected one"),
    ],
)
def test_a_file_must_have_the_connector_once(desk, argv, said):
    desk.changes = {"spec_values": {"topic": "t-dev"}}
    ended = desk.run("connectors", *argv, "-f", desk.write(TWO, "two.yaml"), "-y")
    assert ended.code == 64
    assert said in ended.err
    assert "seamark apply -f" in ended.err
    assert desk.game.writes == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "line 1, column 2"),
        ("[]", "it is not a JSON object"),
        ('{"name": "x", "config": {}, "tasks": []}', "keys that Connect does not accept: tasks"),
        ('{"name": "x", "config": 5}', "config in"),
        ('{"name": [], "config": {}}', "must be strings"),
        ('{"a": "1", "a": "2"}', "duplicate key a"),
        ('{"name": "x", "config": {"connector.class": "X", "a": null}}', "a of x is not a string"),
    ],
)
def test_a_file_that_is_no_connector_is_refused(desk, text, said):
    ended = desk.run("connectors", "create", "-f", desk.write(text), "-y")
    assert ended.code == 64
    assert said in ended.err


def test_a_file_that_is_not_there_is_refused(desk):
    ended = desk.run("connectors", "create", "-f", "nowhere.json")
    assert (ended.code, ended.out) == (64, "")
    assert "nowhere.json can't be read" in ended.err


def test_paths_of_references_start_at_the_file(desk):
    (desk.folder / "secrets.properties").write_text(f"password={PASSWORD}\n")
    config = SOURCE_CONFIG | {"db.password": "secret://file/secrets.properties#password"}
    ended = desk.run("connectors", "create", "-f", desk.write({"name": "new", "config": config}), "-y")
    assert ended.code == 0, ended.err
    assert desk.game.configs["new"]["db.password"] == PASSWORD
    assert PASSWORD not in ended.out + ended.err


def test_change_sets_and_unsets_keys(desk):
    ended = desk.run("connectors", "update", "a", "--set", "tasks.max=4", "--unset", "topic", "-y")
    assert ended.code == 0
    assert '      tasks.max  "1" → "4"' in ended.out
    assert '      topic      "t" → (removed)' in ended.out
    expected = {"name": "a", **SOURCE_CONFIG, "tasks.max": "4"}
    del expected["topic"]
    assert desk.game.configs["a"] == expected


def test_change_takes_a_whole_file(desk):
    file = desk.write({"name": "a", "config": SOURCE_CONFIG | {"file": "/other"}})
    assert desk.run("connectors", "update", "a", "-f", file, "-y").code == 0
    assert desk.game.configs["a"]["file"] == "/other"
    ended = desk.run("connectors", "update", "b", "-f", file, "-y")
    assert ended.code == 64
    assert "the config names connector a, not b" in ended.err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "nothing to change"),
        (["--set", "tasks.max"], "is not KEY=VALUE"),
        (["--set", f"db.password={PASSWORD}"], "db.password is a secret"),
        (["--set", "x=1", "--unset", "x"], "x is both set and unset"),
        (["--set", "x=1", "-f", "c.json"], "nothing to change"),
    ],
)
def test_wrong_changes_are_refused(desk, argv, said):
    ended = desk.run("connectors", "update", "a", *argv, "-y")
    assert (ended.code, ended.out) == (64, "")
    assert said in ended.err
    assert PASSWORD not in ended.err
    assert desk.game.writes == 0


# --- ends


def test_a_single_failure_ends_with_its_own_code(desk):
    desk.game.failing["pause", "a"] = UnreachableError("a worker left", hint="try again")
    ended = desk.run("connectors", "pause", "a", "-y")
    assert ended.code == 6
    assert "  ✗ pause connector/game/a" in ended.err
    assert ended.err.endswith("error: a worker left\nhint:  try again\n")
    assert "failed in 0 ms; no changes were made." in ended.out


def test_some_failures_end_with_3_and_each_is_told(desk):
    desk.game.failing["pause", "a"] = RejectedError("a says no")
    ended = desk.run("connectors", "pause", "a", "b", "-y")
    assert ended.code == 3
    assert "error: a says no\n" in ended.err
    assert "partly done in 0 ms: 1 of 2 steps." in ended.out
    assert desk.game.states == {"a": "RUNNING", "b": "PAUSED"}


def test_a_second_operator_ends_with_5(desk):
    class Died(BaseException):
        pass

    def die():
        raise Died

    desk.game.before["pause", "a"] = die
    with desk.fleet(actor=Actor("other@host:1")) as other, pytest.raises(Died):
        other.apply(other.connectors.pause("a"))
    ended = desk.run("connectors", "stop", "a", "-y")
    change = desk.newest()
    assert ended.code == 5
    assert f"is locked by change {change} (pause a)" in ended.err
    assert "other@host:1" in ended.err
    shown = desk.run("journal", "show", change)
    assert f"seamark journal resume {change}" in shown.out
    assert "● open, held by other@host:1" in shown.out
    assert "● open" in desk.run("journal", "list", "--state", "open").out
    refused = desk.run("journal", "undo", change, "--dry-run")
    assert refused.code == 5
    assert desk.run("journal", "unlock", "--holder", "wrong", change, "-y").code == 5
    assert desk.run("journal", "resume", change, typed="no\n").code == 130


def result(**changes):
    values = {"change": "01ID", "title": "t", "ending": Ending.DONE, "steps": (), **changes}
    return ChangeResult(**values)


def step(outcome, *, number=0, error=None):
    return StepResult(number, "k", f"s{number}", f"do s{number}", outcome, error)


class Ready:
    """A fleet that gives a ready result for every apply."""

    def __init__(self, fleet, result):
        self._fleet, self._result = fleet, result

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._fleet.close()

    def __getattr__(self, name):
        return getattr(self._fleet, name)

    def apply(self, planned, progress, *, pace=None, confirm=""):
        progress.opened("01ID", steps=len(planned.steps))
        progress.waiting("no answer yet")
        if isinstance(self._result, BaseException):
            raise self._result
        return self._result


def run_ready(desk, found):
    out, err = io.StringIO(), io.StringIO()
    session = Session(
        out=out,
        err=err,
        stdin=io.StringIO(),
        now=lambda: NOON,
        open_fleet=lambda name: Ready(desk.fleet(), found),
    )
    code = execute(["connectors", "pause", "a", "-y"], session=session)
    return Ended(code, out.getvalue(), err.getvalue())


def test_an_open_change_names_both_ways_out(desk):
    ended = run_ready(desk, result(ending=None, steps=(step(Outcome.UNKNOWN, error=UnreachableError("silence")),)))
    assert ended.code == 1
    assert "? Change 01ID is still open." in ended.out
    assert "  … no answer yet\n" in ended.err
    assert ended.err.endswith(
        "error: change 01ID is open: the outcome of a step is unknown\ncause: do s0: silence\nhint:  "
        "finish it: seamark journal resume 01ID; or undo it: seamark journal undo 01ID\n"
    )


def test_an_open_change_that_no_resume_can_finish_names_the_decision(desk):
    error = UndecidableError("can't determine whether this was done: do s0", cause="its offsets advance")
    ended = run_ready(desk, result(ending=None, steps=(step(Outcome.UNKNOWN, error=error),)))
    assert "cause: do s0: can't determine whether this was done: do s0; its offsets advance\n" in ended.err
    assert "seamark journal unlock 01ID --holder NONCE --force" in ended.err
    assert "finish it" not in ended.err


def test_an_open_change_whose_connector_was_not_started_says_so(desk):
    error = UnreadableOutcomeError("connector/c/s0 was not started again", cause="no broker answers")
    found = result(ending=None, steps=(step(Outcome.UNKNOWN, error=error),), left=("resume s0",))
    ended = run_ready(desk, found)
    cause = "do s0: connector/c/s0 was not started again; no broker answers; not started: resume s0"
    assert f"cause: {cause}\n" in ended.err
    assert "when the offsets are readable, run: seamark journal resume 01ID;" in ended.err
    assert "until then the connector stays stopped" in ended.err
    assert "unlock" not in ended.err


def test_an_open_change_says_what_it_left(desk):
    failed = step(Outcome.DID_NOT_HAPPEN, error=UnreachableError("silence"))
    ended = run_ready(desk, result(ending=None, steps=(failed,), left=("do s1", "resume s2")))
    assert "cause: not started: do s1, resume s2\n" in ended.err


def test_ctrl_c_ends_with_130_and_says_what_is_left(desk):
    found = result(ending=Ending.PARTLY, steps=(step(Outcome.DONE),), left=("do s1", "do s2"), interrupted=True)
    ended = run_ready(desk, found)
    assert ended.code == 130
    assert "error: stopped by Ctrl-C; 2 of 3 steps were not started\ncause: not started: do s1; do s2\n" in ended.err
    assert "seamark journal undo 01ID" in ended.err


def test_resume_of_a_change_that_ctrl_c_had_ended_is_no_success(tmp_path):
    """Its process was killed after the restore of the connector, before it could close the change."""
    place = Place(tmp_path)
    place.game.add("a", SOURCE_CONFIG)
    place.scan.put(("a", {"filename": "/in"}), {"position": 7})

    class Died(BaseException):
        pass

    def reach(point, number):
        if (point, number) == ("after-outcome", 0):
            os.kill(os.getpid(), signal.SIGINT)
        if point == "before-close":
            raise Died

    with place.fleet as fleet:
        set_hook(reach)
        try:
            with pytest.raises(Died):
                fleet.apply(fleet.offsets.reset("a"))
        finally:
            set_hook(None)
        (head,) = fleet.journal.list(only_open=True)
        resumed = fleet.journal.resume(head.change)
    assert (place.game.states["a"], resumed.ending) == ("RUNNING", Ending.PARTLY)
    errors, code = build_errors(resumed, is_resumed=True)
    assert code == 3
    assert f"change {head.change} was closed, and {len(resumed.left)} of " in errors[0].message
    assert build_errors(resumed, is_closing=True) == ((), 0)


SUPERSEDED = step(Outcome.UNKNOWN, error=UnreachableError("silence"))


@pytest.mark.parametrize(
    ("ending", "steps", "left", "code", "words", "cause"),
    [
        (Ending.FAILED, (), ("do s1", "do s2"), 1, "2 of 2 steps were not started", "not started: do s1; do s2"),
        (Ending.FAILED, (step(Outcome.NOTHING_TO_DO),), ("do s1",), 1, "1 of 2 steps were not started", None),
        (Ending.FAILED, (step(Outcome.DID_NOT_HAPPEN),), (), 1, "1 of 1 steps were not done", "not done: do s0"),
        (Ending.PARTLY, (step(Outcome.DONE),), ("do s1",), 3, "1 of 2 steps were not started", "not started: do s1"),
        # A later step has restored what the unknown one may have changed.
        (
            Ending.PARTLY,
            (SUPERSEDED, step(Outcome.DONE, number=2)),
            ("do s1",),
            3,
            "2 of 3 steps were not done",
            "not started: do s1. not done: do s0",
        ),
        (Ending.PARTLY, (SUPERSEDED, step(Outcome.DONE, number=1)), (), 3, "1 of 2 steps were not done", None),
    ],
)
def test_a_change_that_is_closed_and_not_done_is_no_success(desk, ending, steps, left, code, words, cause):
    found = result(ending=ending, steps=steps, left=left)
    ended = run_ready(desk, found)
    assert ended.code == code
    assert f"error: change 01ID was closed, and {words}\n" in ended.err
    assert cause is None or f"cause: {cause}\n" in ended.err
    assert build_errors(found, is_closing=True) == ((), 0)
    # If nothing was done, everything is as before: a resume has nothing to report.
    errors, resumed = build_errors(found, is_resumed=True)
    assert (resumed, len(errors)) == ((0, 0) if ending is Ending.FAILED else (code, 1))


@pytest.mark.parametrize(
    ("ending", "outcome", "code"), [(Ending.FAILED, Outcome.NOTHING_TO_DO, 0), (Ending.PARTLY, Outcome.DONE, 3)]
)
def test_a_resume_after_which_everything_is_as_before_is_a_success(desk, monkeypatch, ending, outcome, code):
    class Died(BaseException):
        pass

    def die():
        raise Died

    desk.game.before["pause", "a"] = die
    with desk.fleet() as fleet, pytest.raises(Died):
        fleet.apply(fleet.connectors.pause("a"))
    found = result(ending=ending, steps=(step(outcome),), left=("do s1",))
    monkeypatch.setattr("seamark.fleet.journal.Journal.resume", lambda *_, **__: found)
    assert desk.run("journal", "resume", desk.newest(), "-y").code == code


@pytest.mark.parametrize("failure", [None, RejectedError("no")])
def test_a_change_that_is_not_done_never_ends_with_0(failure):
    outcomes = [outcome for outcome in Outcome if outcome is not Outcome.DONE]
    for outcome in outcomes:
        for left in ((), ("do s1",)):
            for ending in (Ending.FAILED, Ending.PARTLY, None):
                if not left and outcome is Outcome.NOTHING_TO_DO:
                    continue
                found = result(ending=ending, steps=(step(outcome, error=failure),), left=left)
                errors, code = build_errors(found)
                assert code != 0, found
                assert errors, found


def test_a_journal_that_fails_in_the_midst_names_the_change(desk):
    ended = run_ready(desk, JournalError("the disk is full"))
    assert ended.code == 1
    assert "finish it: seamark journal resume 01ID" in ended.err


@pytest.mark.parametrize(
    ("change", "hint"), [("01ID", "wait; then repeat it: seamark journal resume 01ID"), ("", "wait")]
)
def test_a_resume_that_reaches_nobody_says_what_to_repeat(change, hint):
    session = Session(out=io.StringIO(), err=io.StringIO(), stdin=io.StringIO(), now=lambda: NOON)

    def act(_):
        raise UnreachableError("nobody is there", hint="wait")

    with pytest.raises(UnreachableError) as caught:
        run_change(session, act, change=change)
    assert caught.value.hint == hint


def test_a_second_ctrl_c_says_where_the_change_stands(desk):
    ended = run_ready(desk, KeyboardInterrupt())
    assert ended.code == 130
    assert "error: change 01ID was interrupted\n" in ended.err
    assert "seamark journal show 01ID" in ended.err


# --- saved plans


def test_a_plan_is_saved_and_applied_later(desk):
    path = desk.folder / "plan.json"
    ended = desk.run("connectors", "pause", "a", "--out", str(path))
    assert ended.code == 0
    assert f"seamark apply {path}" in ended.err
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert desk.game.writes == 0
    assert desk.run("apply", str(path), "--dry-run").code == 0
    assert desk.run("apply", str(path), "-y").code == 0
    assert desk.game.states["a"] == "PAUSED"
    stale = desk.run("apply", str(path), "-y")
    assert stale.code == 5
    assert "the plan was applied before" in stale.err


def test_a_saved_plan_says_which_secrets_it_lacks(desk):
    file = desk.write({"name": "new", "config": SOURCE_CONFIG | {"db.password": PASSWORD}})
    path = desk.folder / "plan.json"
    ended = desk.run("connectors", "create", "-f", file, "--out", str(path))
    assert "connector/game/new db.password" in ended.err
    assert PASSWORD not in path.read_text() + ended.out + ended.err
    assert desk.run("apply", str(path), "-y").code == 5


# --- the journal


def test_undo_shows_its_plan_and_asks(desk):
    desk.run("connectors", "pause", "a", "-y")
    change = desk.newest()
    shown = desk.run("journal", "undo", change, "--dry-run")
    assert f"  undoes change {change}" in shown.out
    assert desk.game.states["a"] == "PAUSED"
    assert desk.run("journal", "undo", change, typed="yes\n").code == 0
    assert desk.game.states["a"] == "RUNNING"
    again = desk.run("journal", "undo", change, "-y")
    assert again.code == 5


def test_journal_tells_a_change_entry_by_entry(desk):
    desk.run("connectors", "pause", "a", "-y")
    change = desk.newest()
    shown = desk.run("journal", "show", change[:10])
    assert shown.code == 0
    assert "step 0: done" in shown.out
    assert len(json.loads(desk.run("journal", "show", change, "-o", "json").out)["entries"]) == 4
    exported = desk.run("journal", "export", change)
    assert [json.loads(text)["kind"] for text in exported.out.splitlines()] == ["open", "intent", "outcome", "close"]
    path = desk.folder / "change.jsonl"
    assert desk.run("journal", "export", change, "--out", str(path)).out == ""
    assert path.read_text() == exported.out
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_empty_journal_and_an_unknown_change(desk):
    ended = desk.run("journal", "list")
    assert (ended.code, ended.out, ended.err) == (0, "", "no changes yet\n")
    for verb in ("show", "undo", "resume", "export"):
        ended = desk.run("journal", verb, "01ARZ3NDEKTSV4RRFFQ69G5FAV")
        assert (ended.code, ended.out) == (1, "")
        assert "the journal has no change" in ended.err


@pytest.mark.parametrize(("limits", "paused"), [(["--canary", "1"], []), ([], ["b"])])
def test_resume_keeps_the_limits_of_the_apply(desk, limits, paused):
    class Died(BaseException):
        pass

    def reach(point, _number):
        if point == "before-close":
            raise Died

    plan = str(desk.folder / "plan.json")
    desk.run("connectors", "pause", "a", "b", "--out", plan)
    desk.game.failing["pause", "a"] = RejectedError("Connect answers 400: no")
    set_hook(reach)
    try:
        with pytest.raises(Died):
            desk.run("apply", plan, *limits, "-y")
    finally:
        set_hook(None)
    ended = desk.run("journal", "resume", desk.newest(), "-y")
    assert [name for name, state in desk.game.states.items() if state == "PAUSED"] == paused
    assert ended.code == (1 if limits else 3)
    assert "error: Connect answers 400: no\n" in ended.err
    assert ("no changes were made" in ended.out) is bool(limits)


def test_resume_of_a_closed_change_is_refused(desk):
    desk.run("connectors", "pause", "a", "-y")
    ended = desk.run("journal", "resume", desk.newest(), "-y")
    assert ended.code == 5
    assert "is closed" in ended.err


def test_init_makes_the_folder_after_a_yes(desk):
    folder = desk.folder / "journal"
    shown = desk.run("init", "--dry-run")
    assert ("2 to create." in shown.out, shown.err) == (True, "No changes were made.\n")
    assert desk.run("init", "--dry-run", "-o", "json").err == ""
    assert desk.run("init").code == 64
    assert not folder.exists()
    ended = desk.run("init", typed="yes\n")
    assert (ended.code, folder.is_dir()) == (0, True)
    assert f"✓ created {folder}" in ended.err
    assert re.search(r"✓ created key [0-9a-f]{32}", ended.err)
    again = desk.run("init")
    assert (again.code, "The journal is set up." in again.out) == (0, True)


def test_init_rotates_the_key_after_a_yes(desk):
    ended = desk.run("init", "--rotate-key", "-y")
    assert (ended.code, "record it: seamark init" in ended.err) == (5, True)
    desk.run("init", "-y")
    shown = desk.run("init", "--rotate-key", "--dry-run")
    assert (shown.code, shown.err) == (0, "No changes were made.\n")
    assert "a new key   seals secrets and signs entries, stored in " in shown.out
    assert "Saved plans can't be applied afterwards." in shown.out
    assert desk.run("init", "--rotate-key").code == 64
    assert desk.run("init", "--rotate-key", "--dry-run").out == shown.out
    ended = desk.run("init", "--rotate-key", typed="yes\n")
    assert ended.code == 0
    found = re.search(r"✓ the journal's key is ([0-9a-f]{32}), in ", ended.err)
    assert found
    assert found[1] not in shown.out
    assert f"key {found[1]}   exists" in desk.run("init").out
    shown = json.loads(desk.run("init", "--rotate-key", "--dry-run", "-o", "json").out)
    assert shown["items"][0]["previous"] == found[1]


def test_rotation_in_a_protected_context_needs_its_name(desk):
    desk.run("init", "-y")
    desk.changes = {"protected": True}
    ended = desk.run("init", "--rotate-key", "-y")
    assert (ended.code, "--confirm dev" in ended.err) == (64, True)
    assert desk.run("init", "--rotate-key", "--confirm", "prod").code != 0
    assert "✓ the journal's key" in desk.run("init", "--rotate-key", "--confirm", "dev").err


def test_rotation_that_was_interrupted_is_explained_and_finished(desk):
    desk.run("init", "-y")
    desk.game.add("a", SOURCE_CONFIG)
    fleet = desk.fleet()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("seamark.changes.keys.Keys.promote_next", lambda _: None)
        fleet.journal.rotate_key()
    ended = desk.run("connectors", "pause", "a", "-y")
    assert ended.code == 5
    assert "the rotation of the journal's key isn't finished" in ended.err
    assert "finish it: seamark init --rotate-key" in ended.err
    assert "isn't finished" in desk.run("init").out
    ended = desk.run("init", "--rotate-key", "-y")
    assert "an interrupted rotation is finished" in ended.out
    assert desk.run("connectors", "pause", "a", "-y").code == 0


# --- the list of changes


@pytest.fixture
def busy(desk):
    """Changes of a source, of a sink, of a sink whose group has another name, and of a group. IDs by name."""
    desk.game.add("lake", SINK_CONFIG)
    desk.game.add("own", {**SINK_CONFIG, "consumer.override.group.id": "readers"})
    ids = {}
    for name, by in (("a", "ana@here:1"), ("lake", "claimed:bob@there:2"), ("own", "ana@here:1")):
        with desk.fleet(actor=Actor(by)) as fleet:
            ids[name] = fleet.apply(fleet.connectors.pause(name)).change
    return ids


def listed(desk, *argv):
    ended = desk.run("journal", "list", *argv, "-o", "name")
    assert ended.code == 0, ended.err
    return ended.out.split()


@pytest.mark.parametrize(
    ("argv", "names"),
    [
        (["a"], ["a"]),
        (["game/a"], ["a"]),
        (["lake"], ["lake"]),
        (["own"], ["own"]),
        (["game/own", "a"], ["own", "a"]),
        (["group/readers"], ["own"]),
        (["group/connect-lake"], ["lake"]),
        (["l*"], ["lake"]),
        (["other/a"], []),
        (["topic/a"], []),
        (["topic/*"], []),
        (["--by", "ana"], ["own", "a"]),
        (["--by", "bob"], ["lake"]),
        (["--by", "*@there:*"], ["lake"]),
        (["--by", "an"], []),
        (["--state", "done", "a"], ["a"]),
        (["--state", "failed"], []),
        (["--state", "open"], []),
        (["--by", "ana", "--limit", "1"], ["own"]),
    ],
)
def test_changes_are_chosen_by_owner_user_and_state(desk, busy, argv, names):
    assert listed(desk, *argv) == [busy[name] for name in names]


def test_changes_are_chosen_by_the_time_at_which_they_were_opened(desk, busy):
    (first, *_) = json.loads(desk.run("journal", "list", "a", "-o", "json").out)["items"]
    assert listed(desk, "--since", first["opened_at"]) == [busy["own"], busy["lake"], busy["a"]]
    # The clock of this command line stands at noon of a day in 2026; the changes are of today.
    assert listed(desk, "--since", "2999-01-01T00:00:00Z") == []
    assert len(listed(desk, "--since", "36500d")) == 3
    assert desk.run("journal", "list", "--since", "soon").code == 64
    assert desk.run("journal", "list", "--since", "2999-01-01").err == "no such changes\n"


def test_changes_are_listed_while_connect_is_down(desk, busy):
    desk.game.failing["read_connector", "lake"] = UnreachableError("down")
    assert listed(desk, "lake") == [busy["lake"]]


def test_changes_of_a_deleted_connector_are_listed(desk):
    desk.run("connectors", "delete", "a", "-y")
    assert len(listed(desk, "a")) == 1


def test_only_the_newest_part_of_a_long_journal_is_read(desk, monkeypatch):
    for verb in ("pause", "resume") * 6:
        desk.run("connectors", verb, "a", "-y")
    desk.run("connectors", "pause", "b", "-y")
    asked = []
    read = FileJournal.heads
    monkeypatch.setattr(FileJournal, "heads", lambda self, limit=None: asked.append(limit) or read(self, limit=limit))
    assert len(listed(desk, "a", "--limit", "2")) == 2
    assert asked == [16]
    # The oldest change that was read decides whether an older one can be wanted.
    asked.clear()
    assert len(listed(desk, "b", "--limit", "1")) == 1
    assert asked == [8]
    asked.clear()
    assert listed(desk, "none", "--limit", "1") == []
    assert asked == [8, 64]
    asked.clear()
    assert listed(desk, "none", "--limit", "1", "--since", "2999-01-01") == []
    assert asked == [8]
