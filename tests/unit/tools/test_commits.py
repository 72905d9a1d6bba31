"""The check of commit subjects, on repositories of its own."""

from __future__ import annotations

import subprocess

import pytest

from tools.commits import check_subjects, find_problem, read_subjects

TIME = "2026-01-02T00:00:00Z"


def git(root, *arguments, day=1):
    identity = ("-c", "user.name=t", "-c", "user.email=t@t", "-c", "protocol.file.allow=always")
    when = f"2026-01-{day:02d}T00:00:00Z"
    env = {"GIT_COMMITTER_DATE": when, "GIT_AUTHOR_DATE": when, "PATH": "/usr/bin:/bin", "HOME": str(root)}
    done = subprocess.run(["git", *identity, *arguments], cwd=root, capture_output=True, text=True, check=True, env=env)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path):
    root = tmp_path / "origin"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    git(root, "commit", "-q", "--allow-empty", "-m", "wip", day=2)
    return root


def read_base(root):
    return git(root, "rev-parse", "HEAD")


@pytest.mark.parametrize(
    "subject",
    [
        "docs: say 'killed' in the PostgreSQL column",
        "kafka_sink, pipelines: commit a task once",
        "ci: process tests in shares",
        "spark: embed the version",
        "a: " + "b" * 69,
    ],
)
def test_good_subjects_pass(subject):
    assert find_problem(subject) is None


@pytest.mark.parametrize(
    ("subject", "problem"),
    [
        ("The word of a column", "form"),
        ("Docs: say it", "form"),
        ("docs: Say it", "form"),
        ("docs:say it", "form"),
        ("docs: ", "form"),
        ("docs: fixed a word", "imperative"),
        ("docs: fixes a word", "imperative"),
        ("docs: fixing a word", "imperative"),
        ("docs: fix a word.", "full stop"),
        ("a: " + "b" * 70, "73 characters"),
    ],
)
def test_wrong_subjects_are_named(subject, problem):
    assert problem in find_problem(subject)


def test_commits_up_to_the_base_are_not_checked(repository):
    base = read_base(repository)
    assert check_subjects(repository, base=base, base_time=TIME) == 0
    git(repository, "commit", "-q", "--allow-empty", "-m", "wip again", day=3)
    assert check_subjects(repository, base=base, base_time=TIME) == 1


def test_merges_are_not_checked(repository):
    base = read_base(repository)
    git(repository, "checkout", "-q", "-b", "side")
    git(repository, "commit", "-q", "--allow-empty", "-m", "docs: say it", day=3)
    git(repository, "checkout", "-q", "main")
    git(repository, "merge", "-q", "--no-ff", "-m", "Merge branch 'side'", "side", day=4)
    assert [subject for _, subject in read_subjects(repository, base=base, base_time=TIME)] == ["docs: say it"]


def test_shallow_clone_is_checked_as_far_as_it_goes(repository, tmp_path, capsys):
    base = read_base(repository)
    git(repository, "commit", "-q", "--allow-empty", "-m", "not seen", day=3)
    git(repository, "commit", "-q", "--allow-empty", "-m", "docs: say it", day=4)
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repository}", "shallow")
    assert check_subjects(tmp_path / "shallow", base=base, base_time=TIME) == 0
    git(tmp_path, "clone", "-q", "--depth", "2", f"file://{repository}", "deeper")
    assert check_subjects(tmp_path / "deeper", base=base, base_time=TIME) == 1
    assert "not seen" in capsys.readouterr().err


def test_rewritten_base_is_told_by_its_time(repository):
    git(repository, "commit", "-q", "--allow-empty", "-m", "docs: say it", day=3)
    assert [subject for _, subject in read_subjects(repository, base="0" * 40, base_time="2026-01-02T12:00:00Z")] == [
        "docs: say it"
    ]


def test_folder_without_a_history_has_nothing_to_check(tmp_path):
    assert check_subjects(tmp_path, base="0" * 40, base_time=TIME) == 0
