"""What the walk counts, on a package of its own and on commands of seamark."""

from __future__ import annotations

import importlib
import json
import sys

import pytest

from tools.walk.__main__ import main
from tools.walk.measuring import find_case, measure
from tools.walk.tracer import Tracer

PLAN = ("offsets", "move", "X", "--back", "1h", "--dry-run")
APPLY = ("offsets", "move", "X", "--back", "1h", "--yes")

FIRST = """\
import threading
from dataclasses import dataclass
from walked import second

@dataclass
class Value:
    number: int

def same():
    return Value(1)

def call():
    same()
    second.answer()
    second.answer()

def load():
    from walked import third

def apply(function):
    return function()

def call_lambda():
    return second.apply(lambda: 1)

def comprehend():
    return [second.answer() for _ in range(3)]

def generate():
    return list(second.count())

def call_in_thread():
    thread = threading.Thread(target=second.answer)
    thread.start()
    thread.join()

def fail():
    try:
        second.fail()
    except ValueError:
        same()
"""
SECOND = """\
def answer():
    return 1

def apply(function):
    return function()

def count():
    yield 1
    yield 2

def fail():
    raise ValueError
"""
THIRD = """\
from walked import second

second.answer()
"""


@pytest.fixture
def first(tmp_path, monkeypatch):
    folder = tmp_path / "walked"
    folder.mkdir()
    for name, text in (("__init__", ""), ("first", FIRST), ("second", SECOND), ("third", THIRD)):
        (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("walked.first")
    for name in [name for name in sys.modules if name.split(".")[0] == "walked"]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("function", "modules", "functions", "returns"),
    [
        # The generated __init__ of the dataclass is no function of the module.
        ("same", {"first"}, 1, 0),
        # The second call of `second.answer` returns to `second`.
        ("call", {"first", "second"}, 3, 1),
        # `third` is loaded, and calls a function while it is.
        ("load", {"first"}, 1, 0),
        # The lambda belongs to `first`, and returns to it.
        ("call_lambda", {"first", "second"}, 2, 1),
        ("comprehend", {"first", "second"}, 2, 2),
        # The generator is entered three times: for two values and its end.
        ("generate", {"first", "second"}, 2, 2),
        ("call_in_thread", {"first", "second"}, 2, 0),
        # After the error the stack is that of `first` again.
        ("fail", {"first", "second"}, 3, 0),
    ],
)
def test_calls_are_counted(first, function, modules, functions, returns):
    with Tracer("walked") as tracer:
        getattr(first, function)()
    assert {name.removeprefix("walked.") for name in tracer.modules} == modules
    assert (len(tracer.functions), tracer.returns) == (functions, returns)


def test_nothing_is_counted_after_the_end(first):
    with Tracer("walked") as tracer:
        pass
    first.call()
    assert (tracer.modules, tracer.functions, tracer.returns) == (set(), set(), 0)


def test_applying_enters_more_than_planning_and_each_run_counts_the_same():
    plan, again, applied = measure(PLAN), measure(PLAN), measure(APPLY)
    assert plan == again
    assert plan.exit_code == applied.exit_code == 0
    assert {"seamark.cli.main", "seamark.cli.offset_changes"} <= set(plan.modules)
    assert set(plan.modules) < set(applied.modules)
    assert (plan.functions, plan.returns) < (applied.functions, applied.returns)
    assert set(plan.scans) == {"offsets"}
    assert plan.scans["offsets"] < applied.scans["offsets"]
    assert plan.requests["GET /connectors/X"] < applied.requests["GET /connectors/X"]
    assert not [request for request in plan.requests if not request.startswith("GET ")]
    assert {"PUT /connectors/X/stop", "PATCH /connectors/X/offsets", "PUT /connectors/X/resume"} < set(applied.requests)


@pytest.mark.parametrize(
    ("words", "line", "module"),
    [
        (["copies", "plan"], "seamark copies plan t --partitions 4:2", "seamark.copies.plan.planner"),
        (["copies", "run"], "seamark copies run copy.json --yes", "seamark.copies.run.runner"),
        (["pipelines", "run"], "seamark pipelines run orders -f config --yes", "seamark.pipelines.service"),
    ],
)
def test_command_without_arguments_runs_as_its_case_says(words, line, module):
    found = measure(words)
    assert (found.command, found.exit_code) == (line, 0)
    assert module in found.modules


def test_environment_and_setup_are_those_of_the_commands_case():
    found = find_case(["copies", "run", "copy.json", "--rate", "5", "--yes"])
    assert found.words == ("seamark", "copies", "run", "copy.json", "--rate", "5", "--yes")
    assert (found.environment, len(found.setup)) == ("copies", 1)


def test_figures_are_printed_as_text_and_as_json(capsys):
    assert main(["workers", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "seamark workers list: exit code 0"
    titles = ["modules entered", "distinct functions", "returns to a module", "HTTP requests", "scans of topics"]
    assert [line[:20].strip() for line in lines[1:]] == titles
    assert main(["--json", "workers", "list"]) == 0
    document = json.loads(capsys.readouterr().out)
    shown = [int(line[20:].replace(",", "")) for line in lines[1:]]
    assert [document[key] for key in ("modules", "functions", "returns", "requests", "scans")] == shown
    assert len(document["module_names"]) == document["modules"]
    assert sum(document["requests_by_path"].values()) == document["requests"] > 0


def test_command_that_fails_ends_with_1(capsys):
    assert main(["topics", "show", "missing"]) == 1
    assert "exit code 1" in capsys.readouterr().out


@pytest.mark.parametrize("words", [[], ["no", "such", "command"], ["offsets"]])
def test_wrong_use_ends_with_64(words, capsys):
    assert main(words) == 64
    assert capsys.readouterr().err
