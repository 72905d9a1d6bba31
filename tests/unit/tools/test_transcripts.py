"""The recorded outputs of all commands, and the tool that records and compares them."""

from __future__ import annotations

import re

import pytest

from tests.unit.scenarios.environment import PASSWORD
from tools.transcripts.__main__ import RECORDED, SCENARIOS, build_diff, check, find_recordings, group_cases, main
from tools.transcripts.cases import find_uncovered, read_cases, read_not_run
from tools.transcripts.player import play_all
from tools.transcripts.tree import find_command, read_commands

GROUPS = group_cases()
COMMANDS = read_commands()
CASES = read_cases()
HEADER = re.compile(r"^\$ (?:seamark|connect-offsets)\b.*\nexit code: (\d+)$", re.MULTILINE)


def read_codes():
    """Return the recorded exit codes, in the order of the cases."""
    found = [code for file in GROUPS for code in HEADER.findall((RECORDED / f"{file}.txt").read_text())]
    return [int(code) for code in found]


def find_path(case):
    return find_command(COMMANDS, case.words).path


# The scenarios are compared by tests/unit/scenarios/test_scenarios.py.
@pytest.mark.parametrize("file", GROUPS)
def test_outputs_are_as_recorded(file):
    differing = build_diff(RECORDED / f"{file}.txt", play_all(GROUPS[file]))
    assert not differing, "".join([*differing, f"\nrecord it: python -m tools.transcripts record {file}"])


def test_every_case_is_recorded_and_every_file_belongs_to_cases():
    assert len(read_codes()) == len(CASES) >= 400
    assert {path.name for path in RECORDED.iterdir()} == {f"{file}.txt" for file in GROUPS}


def test_every_command_has_its_help_and_a_run():
    assert find_uncovered(CASES, COMMANDS) == ()
    assert {one.command for one in read_not_run()} <= {one.name for one in COMMANDS if not one.is_group}


def test_every_command_that_runs_has_tables_json_dry_run_and_three_errors():
    skipped = {one.command for one in read_not_run()}
    lacking = []
    for info in (one for one in COMMANDS if not one.is_group and one.name not in skipped):
        of_command = [case for case in CASES if not case.is_help and find_path(case) == info.path]
        worked = [" ".join(case.words) for case in of_command if not case.is_error and not case.down]
        wanted = {
            "three errors": sum(case.is_error or bool(case.down) for case in of_command) >= 3,
            "a run": bool(worked),
            "json": "--output" not in info.options or any("-o json" in line for line in worked),
            "a dry run": "--dry-run" not in info.options or any("--dry-run" in line for line in worked),
            "consent": "--yes" not in info.options or any("--yes" in line for line in worked),
        }
        lacking += [f"{info.name}: {name}" for name, is_there in wanted.items() if not is_there]
    assert lacking == []


def test_errors_end_with_another_code_than_0_and_help_with_0():
    ended = list(zip(CASES, read_codes(), strict=True))
    assert [case.words for case, code in ended if case.is_error and code == 0] == []
    assert [case.words for case, code in ended if case.is_help and code != 0] == []


def test_no_unexpected_error_and_no_secret_is_recorded():
    for path in RECORDED.iterdir():
        text = path.read_text()
        assert "seamark came upon something" not in text, path.name
        assert PASSWORD not in text, path.name


def test_check_prints_what_differs(tmp_path, capsys):
    recorded = (RECORDED / "workers.txt").read_text()
    assert "4.3.1" in recorded
    (tmp_path / "workers.txt").write_text(recorded.replace("4.3.1", "4.3.0", 1))
    assert check(find_recordings(["workers"], tmp_path)) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["--- recorded/workers.txt", "+++ played/workers.txt"]
    assert any(line.startswith("-") and "4.3.0" in line for line in lines[2:])
    assert any(line.startswith("+") and "4.3.1" in line for line in lines[2:])
    assert sum(line.startswith(("-", "+")) for line in lines) == 4


def test_check_of_a_file_that_is_missing_prints_all_of_it(tmp_path, capsys):
    assert check(find_recordings(["workers"], tmp_path)) == 1
    assert "+$ seamark workers list\n" in capsys.readouterr().out


def test_check_of_equal_files_prints_nothing(capsys):
    assert main(["check", "workers"]) == 0
    assert capsys.readouterr().out == ""


def test_unknown_name_is_wrong_use(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["check", "nothing"])
    assert ended.value.code == 64
    assert "no transcripts nothing" in capsys.readouterr().err


def test_scenarios_are_recordings_too():
    found = find_recordings([SCENARIOS])
    assert len(found) >= 40
    assert all(path.exists() for path in found)
