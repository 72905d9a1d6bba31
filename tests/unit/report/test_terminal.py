from __future__ import annotations

import io

import pytest

from seamark.connectors.views import build_connectors_view
from seamark.errors import SeamarkError
from seamark.report.data import OutputFormat
from seamark.report.terminal import ColorMode, TerminalReporter, can_color
from tests.unit.cli.stubs import NOON, Terminal, connector


@pytest.mark.parametrize(
    ("terminal", "mode", "environ", "expected"),
    [
        (True, "auto", {}, True),
        (False, "auto", {}, False),
        (True, "auto", {"NO_COLOR": "1"}, False),
        (True, "auto", {"NO_COLOR": ""}, True),
        (False, "auto", {"FORCE_COLOR": "1"}, True),
        (False, "auto", {"FORCE_COLOR": "0"}, False),
        (False, "auto", {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (True, "auto", {"TERM": "dumb"}, False),
        (False, "always", {"NO_COLOR": "1"}, True),
        (True, "never", {"FORCE_COLOR": "1"}, False),
    ],
)
def test_colour_is_decided_by_flag_then_environment_then_terminal(terminal, mode, environ, expected):
    stream = Terminal() if terminal else io.StringIO()
    assert can_color(stream, ColorMode(mode), environ) is expected


def reporter(**settings):
    return TerminalReporter(out=io.StringIO(), err=io.StringIO(), environ={}, **settings)


def test_data_and_the_rest_go_to_different_streams():
    told = reporter()
    told.show(build_connectors_view([connector("a")], {}))
    told.note("by the way")
    told.fail(SeamarkError("broken"))
    assert told.out.getvalue().startswith("NAME")
    assert told.err.getvalue() == "by the way\nerror: broken\n"


def test_quiet_drops_notes_and_keeps_errors():
    told = reporter(quiet=True)
    told.show(build_connectors_view([], {}))
    told.note("by the way")
    told.fail(SeamarkError("broken"))
    assert told.out.getvalue() == ""
    assert told.err.getvalue() == "error: broken\n"


def test_an_empty_listing_is_told_beside_the_data():
    told = reporter()
    told.show(build_connectors_view([], {}))
    assert (told.out.getvalue(), told.err.getvalue()) == ("", "no connectors\n")
    told = reporter(form=OutputFormat.CSV)
    told.show(build_connectors_view([], {}))
    assert told.out.getvalue().startswith("name,cluster")
    assert told.err.getvalue() == ""


def test_each_tick_is_flushed():
    class Counting(io.StringIO):
        flushes = 0

        def flush(self):
            self.flushes += 1

    told = TerminalReporter(out=Counting(), err=io.StringIO(), environ={})
    told.show_tick(build_connectors_view([connector("a")], {}), NOON, first=True)
    assert told.out.flushes == 1


def test_a_closed_stream_is_no_terminal():
    stream = Terminal()
    stream.close()
    assert not can_color(stream, ColorMode.AUTO, {})
