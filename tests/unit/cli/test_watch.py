from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from seamark.errors import RefusedError, UnreachableError
from tests.unit.cli.stubs import StubFleet, connector, run_seamark

WATCHED = [["status"], ["connectors", "list"], ["workers", "list"]]
REPOSITORY = Path(__file__).parents[3]


def fail_on(number, error):
    def before_read(read):
        if read == number:
            raise error

    return before_read


@pytest.mark.parametrize("command", WATCHED, ids=" ".join)
def test_watch_appends_blocks_to_a_pipe(command):
    fleet = StubFleet(connectors_found=[connector("a")])
    ended = run_seamark(*command, "--watch", "--max-updates", "3", fleet=fleet)
    assert ended.code == 0
    assert ended.out.count("2026-11-14T12:04:31Z\n") == 3
    assert "\x1b" not in ended.out
    assert (fleet.reads, fleet.closed) == (3, 1)


@pytest.mark.parametrize("command", WATCHED, ids=" ".join)
def test_watch_writes_one_json_line_a_reading(command):
    ended = run_seamark(*command, "--watch", "--max-updates", "2", "-o", "json", fleet=StubFleet())
    documents = [json.loads(text) for text in ended.out.splitlines()]
    assert [document["time"] for document in documents] == ["2026-11-14T12:04:31Z"] * 2


def test_watch_sleeps_between_readings_only():
    ended = run_seamark("status", "--watch", "--max-updates", "3", "--interval", "500ms")
    assert ended.code == 0
    assert ended.naps == [0.5, 0.5]


def test_watch_redraws_in_place_on_a_terminal():
    fleet = StubFleet(connectors_found=[connector("a")])
    ended = run_seamark("connectors", "list", "--watch", "--max-updates", "2", fleet=fleet, terminal=True)
    assert ended.code == 0
    assert "every 2 s · Ctrl-C ends" in ended.out
    # The cursor goes up and lines are cleared one by one; the whole screen never is, which would flicker.
    assert "\x1b[1A" in ended.out
    assert "\x1b[2J" not in ended.out
    # The cursor is shown again at the end.
    assert ended.out.rindex("\x1b[?25h") > ended.out.rindex("\x1b[?25l")


def test_watch_on_a_terminal_still_writes_json_lines():
    ended = run_seamark("status", "--watch", "--max-updates", "2", "-o", "json", terminal=True)
    assert len([json.loads(text) for text in ended.out.splitlines()]) == 2


@pytest.mark.parametrize("terminal", [True, False])
def test_interrupt_ends_a_watch_without_a_word(terminal):
    fleet = StubFleet(before_read=fail_on(3, KeyboardInterrupt()))
    ended = run_seamark("status", "--watch", fleet=fleet, terminal=terminal)
    assert (ended.code, ended.err) == (130, "")
    assert (fleet.reads, fleet.closed) == (3, 1)


def test_error_that_may_pass_does_not_end_a_watch():
    fleet = StubFleet(before_read=fail_on(2, UnreachableError("w1 does not answer")))
    ended = run_seamark("status", "--watch", "--max-updates", "3", fleet=fleet)
    assert ended.code == 0
    assert ended.out.count("Context dev") == 2
    assert ended.err == "error: w1 does not answer\n"


def test_watch_ends_with_the_code_of_its_last_reading():
    fleet = StubFleet(before_read=fail_on(2, UnreachableError("w1 does not answer")))
    assert run_seamark("status", "--watch", "--max-updates", "2", fleet=fleet).code == 6
    partly = StubFleet(failures={"b": UnreachableError("no")}, clusters=("a", "b"))
    assert run_seamark("status", "--watch", "--max-updates", "2", fleet=partly).code == 3


def test_error_that_may_pass_is_shown_in_place_on_a_terminal():
    fleet = StubFleet(before_read=fail_on(2, UnreachableError("w1 does not answer")))
    ended = run_seamark("status", "--watch", "--max-updates", "2", fleet=fleet, terminal=True)
    assert "w1 does not answer" in ended.out
    assert ended.err == ""


@pytest.mark.parametrize("terminal", [True, False])
def test_error_that_stays_ends_a_watch(terminal):
    fleet = StubFleet(before_read=fail_on(2, RefusedError("no")))
    ended = run_seamark("status", "--watch", fleet=fleet, terminal=terminal)
    assert ended.code == 5
    assert "no" in ended.err


def test_readings_may_not_come_too_fast():
    assert run_seamark("status", "--watch", "--interval", "1ms").code == 64
    assert run_seamark("status", "--watch", "--max-updates", "0").code == 64


def test_real_interrupt_ends_a_watch_cleanly():
    script = (
        "import sys\n"
        "from seamark.cli.main import execute\n"
        "from seamark.cli.session import Session\n"
        "from tests.unit.cli.stubs import StubFleet\n"
        "sys.exit(execute(['status', '--watch', '-o', 'json'], session=Session(open_fleet=StubFleet().open)))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
        # Who started the tests in the background has Ctrl-C ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    ) as process:
        first = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert first["kind"] == "FleetStatus"
    assert (process.returncode, err) == (130, "")
