"""The README and the page of servers to practice on, typed word for word into a fresh clone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PRACTICE = "docs/start/practice.md"
# Sets what stands for the addresses of the README, from the stack that runs.
ADDRESSES = """python - > .addresses <<'END'
import os
from pathlib import Path
from seamark.devstack.stack import read_stack

stack = read_stack(Path(os.environ["SEAMARK_DEVSTACK"]))
print(f"CONNECT={stack.connect['connect'].urls[0]} BROKERS={stack.kafka.bootstrap_servers}")
print(f"cp {stack.connect['connect'].worker_config} worker.properties")
END
. ./.addresses
"""


def read_blocks(page, *headings):
    """Return the shell blocks of the sections with these headings, in order; of the whole page without."""
    text = (ROOT / page).read_text()
    parts = [text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0] for heading in headings] or [text]
    return [block for part in parts for block in re.findall(r"^```sh\n(.*?)^```", part, re.DOTALL | re.MULTILINE)]


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


def build_script():
    """Return what is typed: the README in a shell without the variables of the stack, as on a cluster of one's own."""
    install = read_blocks("README.md", "Install")
    own = read_blocks("README.md", "Your own cluster, read-only", "Make your first change")
    practice = read_blocks(PRACTICE)
    assert (len(install), len(own), len(practice)) == (1, 4, 6)
    own = [
        re.sub(r"http://connect\.internal:8083", "$CONNECT", re.sub(r"kafka\.internal:9092", "$BROKERS", block))
        for block in own
    ]
    start, *rest = practice
    own_cluster = f"{ADDRESSES}(unset SEAMARK_CONFIG SEAMARK_DEVSTACK\n{''.join(mark_blocks(own, 'readme'))})\n"
    return "".join(
        [
            "set -euo pipefail\n",
            *mark_blocks(install, "install"),
            *mark_blocks([start], "start"),
            own_cluster,
            *mark_blocks(rest, "practice"),
        ]
    )


def mark_blocks(blocks, name):
    return [f"echo '--- {name} {number}'\n{block}" for number, block in enumerate(blocks, 1)]


@pytest.mark.timeout(1500)
def test_readme_works_word_for_word(tmp_path):
    script = build_script()
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
    try:
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=clone,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=1200,
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
    printed = re.split(r"--- (\w+ \d)\n", done.stdout)
    parts = dict(zip(printed[1::2], printed[2::2], strict=True))
    assert "connector lake-purchase is RUNNING" in parts["start 1"]
    # The README, read-only.
    assert parts["readme 1"].count("✓ OK") == 2
    assert parts["readme 2"].count("log-purchase") >= 3
    assert "HEALTHY" in parts["readme 2"]
    # Its first change: previewed, made and in the journal.
    assert "3 to create" in parts["readme 3"]
    assert "created seamark-journal" in done.stderr
    assert (
        re.findall(r'poll\.interval\.ms  "1000" → "2000"', parts["readme 4"])
        == ['poll.interval.ms  "1000" → "2000"'] * 2
    )
    assert re.search(r"change the config of log-purchase .* ✓ done", parts["readme 4"])
    assert parts["practice 1"].count("log-purchase") >= 3
    assert "1,000 rows reprocessed" in parts["practice 2"]
    assert parts["practice 2"].count("✓ done") == 2
    before, _, after = parts["practice 3"].partition("worker-2 restarted")
    assert before.count("DOWN") == 1
    assert "DOWN" not in after
    assert after.count("UP") == 2
    # The worker is back, but its tasks may still be on their way to it.
    assert re.search(r"^connect/log-purchase (RUNNING|UNASSIGNED)$", parts["practice 4"], re.MULTILINE), parts
    assert "the stack is down" in parts["practice 5"]
    assert "Traceback" not in done.stdout + done.stderr
