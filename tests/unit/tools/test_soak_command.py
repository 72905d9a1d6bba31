"""`python -m tools.soak`: every kind leads to a program that exists, with its options."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tools import soak

ROOT = Path(__file__).parents[3]


@pytest.fixture
def started(monkeypatch):
    """The command lines that would have replaced this process."""
    lines = []

    def replace(program, words):
        lines.append([program, *words])
        raise SystemExit

    monkeypatch.setattr(soak.os, "execv", replace)
    return lines


def test_help_lists_every_kind_on_one_line(capsys):
    assert soak.main(["--help"]) == 0
    printed = capsys.readouterr().out.splitlines()
    for name, one in soak.SOAKS.items():
        assert [line.split(maxsplit=1) for line in printed if line.startswith(f"  {name} ")] == [[name, one.summary]]
    assert soak.main([]) == 0
    assert capsys.readouterr().out.splitlines() == printed


def test_options_reach_the_soak(started):
    for words in (["offsets", "40", "--servers-every", "120"], ["copies", "--help"]):
        with pytest.raises(SystemExit):
            soak.main(words)
    python = [sys.executable, sys.executable, "-m"]
    assert started == [
        [*python, "tests.soak", "--offsets", "40", "--servers-every", "120"],
        [*python, "tests.spark.copies.copy_soak", "--help"],
    ]


def test_unknown_kind_is_a_usage_error(started, capsys):
    assert soak.main(["nothing"]) == 64
    assert capsys.readouterr().err == (
        "error: invalid kind 'nothing': "
        "expected changes, offsets, copies, pipelines, lakes, freshness, upkeep, consumer\n"
    )
    assert started == []


@pytest.mark.parametrize("name", soak.SOAKS)
def test_kind_has_a_program_and_is_documented(name):
    assert find_spec(soak.SOAKS[name].module) is not None
    assert f"python -m tools.soak {name}" in (ROOT / "docs" / "explanation" / "reliability.md").read_text(
        encoding="utf-8"
    )


def test_soak_replaces_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "tools.soak", "consumer", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.startswith("usage: python -m tools.soak consumer [-h]")
