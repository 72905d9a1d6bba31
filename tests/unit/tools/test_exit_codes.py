"""The table of exit codes per command has every exit code that transcripts and scenarios have recorded."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

from seamark.errors import SeamarkError
from tools.reference.commands import list_commands, list_leaves
from tools.reference.exit_codes import CODES, COMMON, OFFLINE, OWN, PARTIAL, build_exit_codes, find_exit_codes
from tools.reference.tables import list_errors

ROOT = Path(__file__).parents[3]
RECORDED = (
    *(ROOT / "tools" / "transcripts" / "recorded").glob("*.txt"),
    *(ROOT / "tests" / "unit" / "scenarios" / "recorded").glob("*.txt"),
)
LEAVES = {path: command for name in list_commands() for path, command, _ in list_leaves(name)}
# By then the process was killed by a test.
KILLED = -9


def read_recorded():
    """The recorded exit codes of each command."""
    found = defaultdict(set)
    by_length = sorted(LEAVES, key=len, reverse=True)
    for file in RECORDED:
        ran = re.findall(r"^\$ seamark (.*)\nexit code: (-?\d+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
        for line, code in ran:
            if path := next((path for path in by_length if f"{line} ".startswith(f"{path} ")), None):
                found[path].add(int(code))
    return {path: codes - {KILLED} for path, codes in found.items()}


FOUND = read_recorded()


def test_every_command_is_recorded_with_a_failure():
    assert [path for path in LEAVES if not FOUND.get(path, set()) - {0}] == []


@pytest.mark.parametrize("path", LEAVES)
def test_recorded_exit_codes_are_in_the_table(path):
    codes = {*COMMON, *find_exit_codes(path, LEAVES[path])}
    assert sorted(FOUND[path] - codes) == []
    # Where the table has "changes are present", it was seen.
    assert (2 in codes) == (2 in FOUND[path])


def test_commands_that_reach_servers_were_seen_to_fail_there():
    seen = {path for path, codes in FOUND.items() if 6 in codes}
    assert seen.isdisjoint(OFFLINE)
    # `journal show` and `export`, and Spark's commands, have a journal or a driver in memory in the recorded runs.
    assert len(seen) >= len(LEAVES) * 2 // 3


def test_the_lists_name_commands_and_codes_of_errors():
    assert {*OFFLINE, *PARTIAL, *(path for path, _ in OWN)} <= set(LEAVES)
    codes = {kind.exit_code for kind in list_errors(SeamarkError)}
    # 2 is no error.
    assert codes | {0, 2} == {*CODES, *COMMON}


def test_the_table_has_a_row_for_each_command_and_short_cells():
    lines = build_exit_codes().splitlines()
    assert len(lines) == len(LEAVES) + 2
    cells = [cell for line in lines[2:] for cell in line.strip("| ").split(" | ")]
    assert max(len(cell.split()) for cell in cells) <= 8
    row = next(line for line in lines if "`plan`" in line)
    assert "| failed | changes are present (`--detailed-exitcode`) |  | not allowed | refused | unreachable |" in row
