"""The README's quickstart, run word for word."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def quickstart():
    """The shell blocks of the section "Start servers and inspect them", in order."""
    section = (ROOT / "README.md").read_text().partition("## Start servers and inspect them")[2].partition("\n## ")[0]
    return re.findall(r"^```sh\n(.*?)^```", section, re.DOTALL | re.MULTILINE)


def copy_checkout(target):
    """What a newcomer's clone would hold: the files git knows or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


@pytest.mark.timeout(600)
def test_quickstart_works_word_for_word(tmp_path):
    blocks = quickstart()
    assert len(blocks) == 7
    clone = tmp_path / "seamark"
    clone.mkdir()
    copy_checkout(clone)
    env = {
        name: value for name, value in os.environ.items() if not name.startswith("SEAMARK_") and name != "VIRTUAL_ENV"
    }
    # The stack's own places, so that a developer's running stack is left alone; the caches are shared.
    env |= {"XDG_STATE_HOME": str(tmp_path / "state"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    for kept in ("SEAMARK_PLUGINS", "SEAMARK_CACHE"):
        if kept in os.environ:
            env[kept] = os.environ[kept]
    script = "set -euo pipefail\n" + "".join(f"echo '--- block {n}'\n{block}" for n, block in enumerate(blocks, 1))
    try:
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=clone,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
    finally:
        left = [*(tmp_path / "state").rglob("*.json")]
        for file in left:
            subprocess.run(
                [str(clone / ".venv/bin/python"), "-m", "seamark.devstack", "down", "--file", str(file)], check=False
            )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert left == []
    parts = re.split(r"--- block \d\n", done.stdout)[1:]
    assert "connector lake-purchase is RUNNING" in parts[1]
    assert parts[2].count("log-purchase") >= 3
    assert "HEALTHY" in parts[2]
    assert "1,000 rows reprocessed" in parts[3]
    assert "✓ done" in parts[3]
    before, _, after = parts[4].partition("worker-2 restarted")
    assert before.count("DOWN") == 1
    assert "DOWN" not in after
    assert after.count("UP") == 2
    # The worker is back, but its tasks may still be on their way to it.
    assert re.search(r"^connect/log-purchase (RUNNING|UNASSIGNED)$", parts[5], re.MULTILINE), parts[5]
    assert "the stack is down" in parts[6]
    assert "Traceback" not in done.stdout + done.stderr
