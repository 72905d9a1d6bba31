"""`python -m tools.coverage`: which lines can run, which have run, and the limits."""

from __future__ import annotations

import json
import runpy
import threading

import pytest

from tools import coverage
from tools.coverage import LineTracer, Share, build_shares, find_lines, find_misses, format_shares, read_seen

MODULE = """\
from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pathlib import Path


class Port(Protocol):
    def read(self) -> Path: ...


def choose(number):
    # A comment is no line.
    if number > 1:
        return "many"
    return "one"


chosen = choose(NUMBER)
"""
# The imports, the condition, the class, the function, its three lines, and the call.
RUNNABLE = {1, 3, 5, 9, 13, 15, 16, 17, 20}


@pytest.fixture
def package(tmp_path):
    folder = tmp_path / "product"
    (folder / "rules").mkdir(parents=True)
    (folder / "rules" / "choice.py").write_text(MODULE)
    (folder / "rules" / "unused.py").write_text("one = 1\ntwo = 2\n")
    (folder / "errors.py").write_text("three = 3\n")
    return folder


def trace(package, *numbers):
    """The lines that run when the module runs with these numbers."""
    tracer = LineTracer(package)
    tracer.start()
    try:
        for number in numbers:
            runpy.run_path(str(package / "rules" / "choice.py"), {"NUMBER": number})
    finally:
        tracer.stop()
    return {name: frozenset(lines) for name, lines in tracer.seen.items()}


def test_lines_for_type_checkers_only_do_not_count(package):
    assert find_lines(package / "rules" / "choice.py") == RUNNABLE


@pytest.mark.parametrize(("numbers", "missed"), [((1,), {16}), ((2,), {17}), ((1, 2), set())])
def test_lines_that_run_are_noted(package, numbers, missed):
    path = package / "rules" / "choice.py"
    assert find_lines(path) - trace(package, *numbers)[str(path)] == missed


def test_lines_of_other_folders_are_not_noted(package):
    assert set(trace(package, 1)) == {str(package / "rules" / "choice.py")}


def test_lines_of_threads_are_noted(package):
    thread = threading.Thread(target=lambda: runpy.run_path(str(package / "errors.py")))
    tracer = LineTracer(package)
    tracer.start()
    try:
        thread.start()
        thread.join()
    finally:
        tracer.stop()
    assert 1 in tracer.seen[str(package / "errors.py")]


def test_shares_are_of_whole_packages(package):
    shares = build_shares(trace(package, 1), package)
    assert shares == (Share("product", 1, 0), Share("rules", len(RUNNABLE) + 2, len(RUNNABLE) - 1))
    assert format_shares(shares).splitlines() == [
        "package          lines  covered percent",
        "product              1        0     0.0",
        "rules               11        8    72.7",
        "all                 12        8    66.7",
    ]


def test_package_below_its_limit_is_named():
    shares = (Share("changes", 1000, 919), Share("offsets", 1000, 920), Share("report", 10, 0))
    assert find_misses(shares, coverage.LIMITS) == ["changes: 91.9 % of lines covered, expected at least 92 %"]


def test_lines_of_all_processes_count(tmp_path):
    for number, lines in enumerate(([1, 2], [2, 5])):
        (tmp_path / f"{number}.json").write_text(json.dumps({"a.py": lines}))
    assert read_seen(tmp_path) == {"a.py": {1, 2, 5}}
