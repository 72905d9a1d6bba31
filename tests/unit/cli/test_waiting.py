"""What people are told while something takes long, and what that leaves alone."""

from __future__ import annotations

import io
import time

import pytest

from seamark.cli import answer as waiting
from seamark.cli.answer import build_sentence, report_slow_calls
from seamark.cli.main import execute
from seamark.cli.session import Session
from seamark.connect.model import Wait
from seamark.fleet.fleet import Fleet
from seamark.report.data import OutputFormat
from tests.fakes.connect import Delay, FakeConnect
from tests.unit.cli.stubs import Terminal
from tests.unit.fleet.builders import context, settings

LONG = Wait("game", "read the connectors", 4.2, "409 Cannot complete request because of a rebalance")


def hurry(monkeypatch):
    """Have it told soon."""
    monkeypatch.setattr(waiting, "FIRST_SECONDS", 0.05)
    monkeypatch.setattr(waiting, "EVERY_SECONDS", 0.05)


@pytest.fixture
def fast(monkeypatch):
    hurry(monkeypatch)


def test_short_waits_are_nobodys_business():
    assert build_sentence([]) == ""
    assert build_sentence([Wait("game", "read the connectors", 1.9)]) == ""


def test_sentence_says_who_what_how_long_and_what_was_answered():
    assert build_sentence([LONG]) == (
        "… still trying to read the connectors in Connect cluster game, 4 s: "
        "409 Cannot complete request because of a rebalance"
    )
    silent = Wait("lake", "read the version", 7.0)
    assert build_sentence([LONG, silent]) == (
        "… still trying to read the version in Connect cluster lake, 7 s: no answer yet; 1 more call waits too"
    )
    assert build_sentence([LONG, silent, silent]).endswith("; 2 more calls wait too")


def test_sentence_is_short_and_without_secrets():
    sentence = build_sentence([Wait("game", "read", 3, "password=hunter2 " + "x" * 1000)])
    assert "hunter2" not in sentence
    assert len(sentence) < 250


def tell(session, *, until=bool, seconds=5.0):
    """What is written while a call waits for ever."""
    with report_slow_calls(session, lambda: [LONG]):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not until(session.err.getvalue()):
            time.sleep(0.01)
    return session.err.getvalue()


def test_it_is_told_again_and_again_until_it_ends(fast):
    session = Session(out=io.StringIO(), err=io.StringIO())
    text = tell(session, until=lambda err: err.count("\n") >= 2)
    assert text.startswith("… still trying to read")
    time.sleep(0.15)
    assert session.err.getvalue() == text
    assert session.out.getvalue() == ""


@pytest.mark.parametrize(
    "changes",
    [{"quiet": True}, {"output": OutputFormat.JSON}, {"is_redrawing": True, "err": Terminal()}],
    ids=["quiet", "json", "drawing"],
)
def test_nobody_is_told_who_does_not_want_to_be(fast, changes):
    session = Session(**{"out": io.StringIO(), "err": io.StringIO(), **changes})
    assert tell(session, seconds=0.3) == ""


def test_a_person_is_told_beside_the_json_of_a_program(fast):
    session = Session(out=io.StringIO(), err=Terminal(), output=OutputFormat.JSON)
    assert "still trying" in tell(session)


def test_a_terminal_that_is_gone_ends_nothing(fast):
    err = io.StringIO()
    session = Session(out=io.StringIO(), err=err)
    with report_slow_calls(session, lambda: [LONG]):
        err.close()
        time.sleep(0.2)


def run(fake, *argv):
    out, err = io.StringIO(), io.StringIO()
    given = context(settings(urls=fake.urls))
    session = Session(out=out, err=err, open_fleet=lambda name: Fleet(given))
    return execute(argv, session=session), out.getvalue(), err.getvalue()


def test_a_slow_worker_is_told_and_the_result_is_the_same(monkeypatch):
    with FakeConnect() as fake:
        fake.add_connector("a")
        code, quick, silent = run(fake, "connectors", "list")
        assert (code, silent) == (0, "")
        # Not before: on a busy machine even a quick answer may take as long.
        hurry(monkeypatch)
        fake.faults.add(match="GET /connectors*", do=Delay(0.5))
        code, slow, told = run(fake, "connectors", "list")
        assert (code, slow) == (0, quick)
        assert "… still trying to read the connectors in Connect cluster game" in told
        fake.faults.add(match="GET /connectors*", do=Delay(0.5))
        assert run(fake, "connectors", "list", "--quiet") == (0, quick, "")
