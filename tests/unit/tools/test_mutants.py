"""The tool for mutants, on a project of its own."""

from __future__ import annotations

import time

import pytest

from tools.mutants import __main__ as command
from tools.mutants.catalog import FEWEST, Mutant, find_problems, read_mutants
from tools.mutants.runner import Overlay, Trial, Verdict

GOOD = "def is_allowed(age):\n    return age > 17\n"
TEST = "from guard.door import is_allowed\n\n\ndef test_door():\n    assert is_allowed(18) and not is_allowed(3)\n"


@pytest.fixture
def project(tmp_path):
    files = {
        "src/guard/__init__.py": "",
        "src/guard/door.py": GOOD,
        "tests/unit/test_door.py": TEST,
        "tests/unit/test_nothing.py": "def test_nothing():\n    pass\n",
        "tests/unit/test_slow.py": "import time\n\n\ndef test_slow():\n    time.sleep(60)\n",
        "tests/fault/test_real.py": "def test_real():\n    pass\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def build(**changes):
    values = {
        "name": "any-age",
        "module": "src/guard/door.py",
        "old": "age > 17",
        "new": "True",
        "tests": ("tests/unit/test_door.py",),
    }
    return Mutant(**values | changes)


@pytest.mark.parametrize(
    ("mutant", "verdict"),
    [
        (build(), Verdict.KILLED),
        (build(new="age >= 18"), Verdict.SURVIVED),
        (build(tests=("tests/unit/test_nothing.py",)), Verdict.SURVIVED),
        (build(tests=(), killed_by=("tests/fault/test_real.py",)), Verdict.SURVIVED),
        (build(tests=("tests/unit/test_gone.py",)), Verdict.INVALID),
        # The module can't be imported, which any test would notice.
        (build(old="def is_allowed", new="def is_refused"), Verdict.INVALID),
    ],
)
def test_tests_decide_about_a_mutant(project, mutant, verdict):
    with Overlay(project) as overlay:
        assert overlay.run_mutant(mutant).verdict is verdict
    assert (project / "src/guard/door.py").read_text() == GOOD


def test_one_mutant_leaves_nothing_for_the_next(project):
    # Equal in size and within one second: a compiled file of the first must not be used for the second.
    killing, harmless = build(old="17", new="99"), build(old="17", new="16")
    with Overlay(project) as overlay:
        found = [overlay.run_mutant(one).verdict for one in (killing, harmless, killing)]
        assert overlay.run_tests(killing.tests, timeout=60).verdict is Verdict.SURVIVED
    assert found == [Verdict.KILLED, Verdict.SURVIVED, Verdict.KILLED]


def test_mutant_that_hangs_is_ended_and_does_not_count_as_killed(project):
    began_at = time.monotonic()
    with Overlay(project) as overlay:
        trial = overlay.run_mutant(build(tests=("tests/unit/test_slow.py",)), timeout=3)
    assert trial.verdict is Verdict.TIMED_OUT
    assert time.monotonic() - began_at < 50


@pytest.mark.parametrize(
    ("mutant", "words"),
    [
        (build(old="17\n    return"), "occurs 0 times"),
        (build(old="age"), "occurs 2 times"),
        (build(module="src/guard/gone.py"), "gone.py doesn't exist"),
        (build(new="age > 17"), "changes nothing"),
        (build(new="("), "was never closed"),
        (build(tests=("tests/unit/test_gone.py",)), "test_gone.py doesn't exist"),
        (build(tests=("tests/unit/test_door.py::test_gone",)), "test_gone doesn't exist"),
        (build(tests=("tests/fault/test_real.py",)), "is not a fast test"),
        (build(killed_by=("tests/unit/test_door.py",)), "is a fast test"),
        (build(tests=()), "no test is named"),
    ],
)
def test_problem_of_a_mutant_is_found(project, mutant, words):
    (problem,) = (found for found in find_problems([mutant], project) if "fewer than" not in found)
    assert problem.startswith("any-age: ")
    assert words in problem


def test_mutant_without_a_problem_passes(project):
    mutants = [build(name=f"one-{number}", tests=("tests/unit/test_door.py::test_door",)) for number in range(FEWEST)]
    assert find_problems(mutants, project) == []
    assert find_problems([*mutants, mutants[0]], project) == ["one-0: the name is used twice"]
    assert find_problems(mutants[1:], project) == [f"the list has {FEWEST - 1} mutants, fewer than {FEWEST}"]


@pytest.mark.parametrize(("killed", "named", "code"), [(100, 0, 0), (95, 5, 0), (94, 6, 1), (99, 0, 1), (96, 3, 1)])
def test_exit_code_needs_95_percent_and_a_test_for_each_survivor(capsys, killed, named, code):
    mutants = [build(name=f"m{number}") for number in range(killed)]
    mutants += [build(name=f"n{number}", killed_by=("tests/fault/x.py",)) for number in range(named)]
    mutants += [build(name=f"s{number}") for number in range(100 - killed - named)]
    trials = {one.name: Trial(Verdict.KILLED if one.name.startswith("m") else Verdict.SURVIVED, 1.0) for one in mutants}
    assert command.print_summary(mutants, trials) == code
    assert f"killed by fast tests: {killed} of 100" in capsys.readouterr().out


def test_unknown_name_is_wrong_use(capsys):
    assert command.main(["run", "no-such-mutant"]) == command.USAGE_EXIT
    assert "no mutant no-such-mutant" in capsys.readouterr().err


def test_list_prints_every_mutant(capsys):
    assert command.main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(read_mutants()) + 1
    assert lines[-1] == f"{len(lines) - 1} mutants"


def test_committed_list_has_no_problem():
    assert find_problems(read_mutants()) == []
