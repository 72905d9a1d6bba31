"""The check of the reliability page, on repositories of its own."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import pytest

from tests.soak.record import CHANGES, OFFSETS, PAGE, append_row, build_row
from tools.reliability import (
    MOST_LINES,
    OUTDATED,
    FileChange,
    RunError,
    check_page,
    count_changes,
    parse_numstat,
    read_changes,
    read_runs,
)

HEADER = "| date | commit | covers | kills |\n|---|---|---|---|\n"


def git(root, *arguments):
    identity = ("-c", "user.name=t", "-c", "user.email=t@t")
    done = subprocess.run(["git", *identity, *arguments], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def write(root, name, lines):
    path = root / "src" / "seamark" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{name} {number}\n" for number in range(lines)))


@pytest.fixture
def repository(tmp_path):
    git(tmp_path, "init", "-q")
    write(tmp_path, "change/executor.py", MOST_LINES + 1)
    write(tmp_path, "report/table.py", MOST_LINES + 1)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "a run was done here")
    return SimpleNamespace(root=tmp_path, commit=git(tmp_path, "rev-parse", "--short", "HEAD"))


def check(repository, covers="change", commit=None, text=""):
    page = repository.root / "page.md"
    page.write_text(text or f"{HEADER}| 2026-11-15 | {commit or repository.commit} | {covers} | 3 |\n")
    read_changes.cache_clear()
    return check_page(page, repository.root)


def test_run_of_unchanged_code_passes(repository, capsys):
    assert check(repository) == 0
    assert f"page.md:3: 0 lines changed since {repository.commit}" in capsys.readouterr().out


@pytest.mark.parametrize(("lines", "code"), [(MOST_LINES, 0), (MOST_LINES + 1, 1)])
def test_run_is_too_old_when_more_lines_changed_than_allowed(repository, capsys, lines, code):
    write(repository.root, "change/new.py", lines)
    git(repository.root, "add", ".")
    git(repository.root, "commit", "-q", "-m", "more")
    assert check(repository) == code
    assert (f"{lines:,} lines of change changed since {repository.commit}" in capsys.readouterr().err) == bool(code)


def test_deleted_lines_count(repository):
    git(repository.root, "rm", "-q", "src/seamark/change/executor.py")
    assert check(repository) == 1


def test_lines_of_other_paths_do_not_count(repository):
    write(repository.root, "report/table.py", 0)
    write(repository.root, "changes_of_another_name.py", MOST_LINES + 1)
    git(repository.root, "add", ".")
    assert check(repository) == 0


@pytest.mark.parametrize(("source", "target"), [("change", "change/deep"), ("change", "report"), ("report", "change")])
def test_moved_file_does_not_count(repository, source, target):
    name = "executor.py" if source == "change" else "table.py"
    (repository.root / "src" / "seamark" / target).mkdir(exist_ok=True)
    git(repository.root, "mv", f"src/seamark/{source}/{name}", f"src/seamark/{target}/moved.py")
    git(repository.root, "commit", "-q", "-m", "move")
    assert check(repository) == 0


@pytest.mark.parametrize(("source", "target", "code"), [("change", "report", 1), ("report", "change", 0)])
def test_edits_of_a_moved_file_count_where_the_run_had_it(repository, source, target, code):
    folder = repository.root / "src" / "seamark"
    moved = folder / target / "moved.py"
    (folder / source / ("executor.py" if source == "change" else "table.py")).rename(moved)
    git(repository.root, "add", ".")
    git(repository.root, "commit", "-q", "-m", "move")
    # Half of the lines are the old ones: git still takes it for the same file.
    moved.write_text(moved.read_text() + "".join(f"added = {number}\n" for number in range(MOST_LINES + 1)))
    assert check(repository) == code


def test_uncommitted_lines_count(repository):
    write(repository.root, "change/executor.py", 0)
    assert check(repository) == 1


def test_commit_of_a_dirty_tree_is_accepted(repository):
    assert check(repository, commit=f"{repository.commit}+") == 0


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("| 2026-11-15 | 0000000 | change | 3 |", "no commit 0000000"),
        ("| 2026-11-15 | {commit} | no-such-path | 3 |", "has no src/seamark/no-such-path"),
        ("| 2026-11-15 | {commit} |  | 3 |", "covers nothing"),
        ("| 2026-11-15 |  | change | 3 |", "names no commit"),
    ],
)
def test_row_that_can_not_be_checked_fails(repository, capsys, row, words):
    assert check(repository, text=HEADER + row.format(commit=repository.commit) + "\n") == 1
    assert words in capsys.readouterr().err


def test_table_without_commits_fails(repository, capsys):
    assert check(repository, text="| date | kills |\n|---|---|\n| 2026-11-15 | 3 |\n") == 1
    assert "needs the columns commit and covers" in capsys.readouterr().err


def test_outdated_runs_and_other_tables_are_not_checked(repository):
    old = f"{OUTDATED}\n\n{HEADER}| 2026-11-15 | 0000000 | x | 3 |\n"
    text = f"| fault | where |\n|---|---|\n| any | x |\n\n{HEADER}\n{old}"
    assert read_runs(text) == ()
    assert check(repository, text=text) == 0


def test_renames_are_parsed():
    assert parse_numstat("3\t1\ta.py\0002\t0\t\0old.py\0new.py\0-\t-\tb.png\0") == [
        FileChange(4, ("a.py",)),
        FileChange(2, ("old.py", "new.py")),
        FileChange(0, ("b.png",)),
    ]
    assert parse_numstat("") == []


def test_name_that_only_begins_alike_is_not_covered():
    changes = [FileChange(7, ("src/seamark/changes/x.py",)), FileChange(5, ("src/seamark/change/x.py",))]
    assert count_changes(changes, ["change"]) == 5


def test_page_lists_runs_with_commit_and_paths():
    assert read_runs(PAGE.read_text())


@pytest.mark.parametrize("table", [CHANGES, OFFSETS])
def test_row_that_the_soak_appends_can_be_checked(tmp_path, table):
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text())
    stack = SimpleNamespace(
        kafka=SimpleNamespace(version="4.3.1"), connect={"connect": SimpleNamespace(version="4.3.1")}
    )
    counts = dict.fromkeys(table.columns, 1)
    append_row(build_row(stack, counts, table, violations=0, minutes=12, seed=7), table, page)
    added = set(read_runs(page.read_text())) ^ set(read_runs(PAGE.read_text()))
    assert any(run.covers == table.covers for run in added)


def test_page_without_a_heading_of_outdated_runs_is_read_whole():
    with pytest.raises(RunError):
        read_runs(f"{HEADER}| 2026-11-15 | a | | 3 |\n")
