"""Every way to end, and what the shell is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from seamark import __version__
from seamark.cli.main import execute, root
from seamark.cli.tree import read_summary
from seamark.errors import RefusedError
from tests.unit.cli.stubs import StubFleet, connector, run_seamark

REPOSITORY = Path(__file__).parents[3]


def run_process(*argv):
    return subprocess.run(
        [sys.executable, "-m", "seamark.cli", *argv], capture_output=True, text=True, timeout=60, check=False
    )


def test_version_is_told():
    ended = run_process("--version")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"seamark {__version__}\n", "")


@pytest.mark.parametrize("name", root.lazy)
def test_summary_of_a_lazy_command_is_the_one_of_the_command(name):
    context = click.Context(root)
    command = root.get_command(context, name)
    assert command.name == name
    assert root.lazy[name][1] == read_summary(command)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--nope"], "No such option"),
        (["nope"], "unknown command 'seamark nope'"),
        (["connectors", "show"], "Missing argument 'NAME'"),
        (
            ["connectors", "list", "--interval", "soon"],
            "invalid value 'soon' for --interval: expected a duration",
        ),
        (["connectors", "list", "--state", "ill"], "'ill' is not one of"),
        (["-o", "xml", "status"], "'xml' is not one of"),
        (["completion", "tcsh"], "'tcsh' is not one of"),
    ],
)
def test_wrong_usage_ends_with_64_and_says_where_to_look(argv, message):
    ended = run_seamark(*argv)
    assert (ended.code, ended.out) == (64, "")
    assert ended.err.startswith("error: ")
    assert message in ended.err
    assert ended.err.splitlines()[-1].startswith("hint:  run: seamark")
    assert ended.err.endswith(" --help\n")


@pytest.mark.parametrize(
    "argv", [["-o", "json", "nope"], ["--output=json", "--nope"], ["-ojson", "connectors", "show"]]
)
def test_wrong_usage_is_told_as_json_where_json_was_wanted(argv):
    ended = run_seamark(*argv)
    assert ended.code == 64
    error = json.loads(ended.err)
    assert (error["kind"], error["code"]) == ("Error", "USAGE")


@pytest.mark.parametrize("argv", [[], ["connectors"], ["context"]])
def test_command_without_its_verb_shows_help_and_does_not_succeed(argv):
    ended = run_seamark(*argv)
    assert (ended.code, ended.out) == (64, "")
    assert ended.err.startswith("Usage: seamark")


def test_interrupt_ends_with_130():
    ended = run_seamark("status", fleet=StubFleet(error=KeyboardInterrupt()))
    assert (ended.code, ended.out, ended.err) == (130, "", "error: interrupted\n")


def test_refusal_ends_with_its_own_code():
    ended = run_seamark("status", fleet=StubFleet(error=RefusedError("not stopped", hint="stop it first")))
    assert (ended.code, ended.err) == (5, "error: not stopped\nhint:  stop it first\n")


def test_surprise_ends_with_1_and_no_traceback():
    fleet = StubFleet(error=ZeroDivisionError("by \x1b[31mzero, password=hunter2"))
    ended = run_seamark("status", fleet=fleet)
    assert (ended.code, ended.out) == (1, "")
    assert "Traceback" not in ended.err
    assert "cause: ZeroDivisionError: by \\x1b[31mzero, password=(sensitive)\n" in ended.err
    assert "-v" in ended.err


def test_surprise_shows_its_traceback_with_v():
    fleet = StubFleet(error=ZeroDivisionError("by \x1b[31mzero, password=hunter2"))
    ended = run_seamark("status", "-v", fleet=fleet)
    assert ended.code == 1
    assert "Traceback (most recent call last)" in ended.err
    assert "\x1b" not in ended.err
    assert "hunter2" not in ended.err


def test_known_error_shows_its_traceback_only_when_asked_twice():
    fleet = StubFleet(error=RefusedError("not stopped"))
    assert "Traceback" not in run_seamark("status", "-v", fleet=fleet).err
    assert "Traceback" in run_seamark("status", "-vv", fleet=fleet).err


@pytest.mark.parametrize("argv", [["--help"], ["completion", "bash"]])
def test_reader_that_had_enough_is_no_failure(argv):
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as out:
        ended = subprocess.run(
            [sys.executable, "-m", "seamark.cli", *argv],
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_terminal_without_unicode_gets_escapes():
    script = (
        "from tests.unit.cli.stubs import StubFleet, connector\n"
        "import seamark.cli.main as main, sys\n"
        "fleet = StubFleet(connectors_found=[connector('a')])\n"
        "original = main.Session\n"
        "main.Session = lambda: original(open_fleet=fleet.open)\n"
        "sys.argv = ['seamark', 'connectors', 'list']\n"
        "main.run()\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        timeout=60,
        check=False,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert ended.returncode == 0, ended.stderr
    assert b"\\u2713 HEALTHY" in ended.stdout


@pytest.mark.parametrize(
    ("shell", "word"), [("bash", "complete -o nosort"), ("zsh", "#compdef seamark"), ("fish", "complete")]
)
def test_completion_script_is_written(shell, word):
    ended = run_seamark("completion", shell)
    assert ended.code == 0
    assert word in ended.out
    assert "_SEAMARK_COMPLETE" in ended.out


def test_shell_is_offered_commands(monkeypatch, capsys):
    monkeypatch.setenv("_SEAMARK_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "seamark con")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert execute([]) == 0
    assert capsys.readouterr().out.split() == ["plain,connectors", "plain,context"]


def test_shell_is_offered_connectors(monkeypatch, capsys):
    monkeypatch.setenv("_SEAMARK_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "seamark connectors show log-")
    monkeypatch.setenv("COMP_CWORD", "3")
    fleet = StubFleet(connectors_found=[connector("log-b"), connector("log-a"), connector("x"), connector("log-\x1b")])
    run_seamark(fleet=fleet)
    assert capsys.readouterr().out.split() == ["plain,log-a", "plain,log-b"]


def test_shell_is_offered_nothing_when_the_fleet_fails(monkeypatch, capsys):
    monkeypatch.setenv("_SEAMARK_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "seamark connectors show log-")
    monkeypatch.setenv("COMP_CWORD", "3")
    run_seamark(fleet=StubFleet(error=RuntimeError("no")))
    shown = capsys.readouterr()
    assert (shown.out.split(), shown.err) == ([], "")
