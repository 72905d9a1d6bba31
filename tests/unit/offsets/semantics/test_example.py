"""The meaning in examples/own-connector: its own test passes, and its entry point is found."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

EXAMPLE = Path(__file__).parents[4] / "examples" / "own-connector" / "meaning"


def run(*command, folder):
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_its_own_test_passes():
    done = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir=.", ".", folder=EXAMPLE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


def test_seamark_finds_it_by_its_entry_point(tmp_path):
    # As pip would lay it out, without pip.
    points = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]["entry-points"]["seamark.semantics"]
    (tmp_path / "counter_meaning.py").write_text((EXAMPLE / "counter_meaning.py").read_text())
    info = tmp_path / "seamark_counter-1.0.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: seamark-counter\nVersion: 1.0.0\n")
    lines = [f"{name} = {value}" for name, value in points.items()]
    (info / "entry_points.txt").write_text("\n".join(["[seamark.semantics]", *lines, ""]))
    program = """
from seamark.offsets.semantics import find_meaning
meaning = find_meaning("example.counter.CounterSourceConnector", {"topic": "counted"})
print(meaning.family, *meaning.describe({"counter": "counted"}, {"count": 41}), sep="|")
"""
    done = run("-c", program, folder=tmp_path)
    assert done.stdout == "counter|counter counted|counted to 41\n", done.stderr
