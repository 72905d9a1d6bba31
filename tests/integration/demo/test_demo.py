"""`seamark demo` of docs/start/demo.md to its end, on real servers and without a terminal."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from seamark.demo.chapters import CHAPTERS
from seamark.demo.chapters.data import HOUR_ROWS, QUEST_ROWS
from seamark.demo.chapters.data import MORE as MORE_CLICKS
from seamark.demo.chapters.data import PAYMENT_ROWS as PAYMENTS
from seamark.demo.chapters.data import RECORDS as CLICKS
from seamark.demo.chapters.data import VISIT_ROWS as VISITS

# All chapters took 154 s on 2 cores that others kept busy (load 9).
# With Spark's chapters, beside three other processes on two cores; alone it takes under four minutes.
DEADLINE_SECONDS = 900
pytestmark = pytest.mark.timeout(1000)


@pytest.fixture
def place():
    """A temporary folder of the demo's own, through which PostgreSQL's user can pass."""
    folder = Path(tempfile.mkdtemp(prefix="demo-test-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def start(place, *argv):
    """The demo as a child. All that it makes is below its own temporary folder, so that what is left can be told."""
    environ = {key: value for key, value in os.environ.items() if key not in ("SEAMARK_DEVSTACK", "SEAMARK_CONFIG")}
    (place / "tmp").mkdir(mode=0o711)
    # Ports are held in a folder that all stacks of this machine share.
    ports = Path(tempfile.gettempdir()) / "seamark-ports"
    ports.mkdir(mode=0o1777, exist_ok=True)
    (place / "tmp" / "seamark-ports").symlink_to(ports)
    return subprocess.Popen(
        # What a shell starts in the background, CI perhaps, ignores Ctrl-C and hands that on.
        ["env", "--default-signal=INT", sys.executable, "-m", "seamark.cli", "demo", *argv],
        env={
            **environ,
            "TMPDIR": str(place / "tmp"),
            "HOME": str(place / "home"),
            "XDG_CONFIG_HOME": str(place / "config"),
            "XDG_STATE_HOME": str(place / "state"),
            "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )


def end(process):
    """End the demo if it still runs, and close its pipe: an open one would fail a later test of this process."""
    process.kill()
    process.stdout.close()
    process.wait(60)


def find_processes(place):
    """The processes that were started with a path below the folder, or by whoever was."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if str(place).encode() in words:
            found.append(words.replace(b"\0", b" ").decode(errors="replace"))
    return found


def check_nothing_is_left(place):
    deadline = time.monotonic() + 90
    while find_processes(place):
        assert time.monotonic() < deadline, find_processes(place)
        time.sleep(0.2)
    assert [path.name for path in (place / "tmp").iterdir() if path.name.startswith("seamark-demo")] == []
    assert not (place / "config").exists()


def split(output):
    """What each chapter showed, by its name."""
    titles = "|".join(re.escape(chapter.title) for chapter in CHAPTERS)
    parts = re.split(rf"^\d+\. ({titles})$", output, flags=re.MULTILINE)
    names = {chapter.title: chapter.name for chapter in CHAPTERS}
    return {names[title]: text for title, text in zip(parts[1::2], parts[2::2], strict=True)}


def answers(text):
    """The commands of a chapter with what was shown behind each."""
    parts = re.split(r"^([$>] .*)$", text, flags=re.MULTILINE)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def answer(text, command, *, which=0):
    return [shown for line, shown in answers(text) if command in line][which]


def test_demo_runs_to_its_end_and_leaves_nothing(place):
    process = start(place)
    try:
        output, _ = process.communicate(timeout=DEADLINE_SECONDS)
    finally:
        end(process)
    assert process.returncode == 0, output[-6000:]
    shown = split(output)
    left_out = set(re.findall(r"chapter \d+, ([a-z-]+), is skipped: it needs", output))
    assert left_out <= {"table", "rewind", "shrink", "lake"}
    assert set(shown) == {chapter.name for chapter in CHAPTERS} - left_out

    fleet = shown["fleet"]
    assert answer(fleet, "connectors list").count("✓ HEALTHY") == 2
    assert "log-purchase" in answer(fleet, "connectors show")
    assert "log-purchase" in answer(fleet, "offsets show")

    code = shown["code"]
    assert "Plan: 3 to create, 0 to change, 0 to delete" in answer(code, "plan -f config")
    assert "until every connector of config/ ran" in answer(code, "apply -f config")
    assert "No changes." in answer(code, "plan -f config", which=1)
    changed = answer(code, "plan -f config", which=2)
    assert changed.count('batch.size  "100" → "500"') == 2
    assert "Plan: 0 to create, 2 to change, 0 to delete" in changed

    trouble = shown["trouble"]
    assert re.search(r"write-login .*UNHEALTHY +0/1", answer(trouble, "connectors list"))
    assert re.search(r"connect/write-login  1 of 1 tasks FAILED: .*nowhere/login.txt", answer(trouble, "doctor"))
    assert "drift connector/connect/write-login" in answer(trouble, "plan -f config")
    assert "until every connector of config/ ran" in answer(trouble, "apply -f config")
    assert "runs again" in answer(trouble, "connectors heal")

    back = answer(shown["rollback"], "apply -f config")
    assert "exit code 3" in back
    assert "until every connector of config/ ran" in back
    assert "✓ HEALTHY" in answer(shown["rollback"], "connectors list write-login")
    assert "No changes." in answer(shown["rollback"], "plan -f config")

    undo = shown["undo"]
    assert "done" in answer(undo, "journal undo")
    assert "done" in answer(undo, "journal undo", which=1)
    assert "No changes." in answer(undo, "plan -f config")

    worker = shown["worker"]
    assert answer(worker, "workers list", which=1).count("✗ DOWN") == 1
    assert "until all tasks ran on the remaining worker" in answer(worker, "connectors list")
    assert "until both workers ran tasks again" in answer(worker, "devstack restart")
    assert answer(worker, "workers list", which=2).count("✓ UP") == 2

    if "table" in shown:
        numbers = re.findall(r"^(\d+)$", shown["table"], re.MULTILINE)
        assert numbers == [str(QUEST_ROWS), str(QUEST_ROWS)]

    if "rewind" in shown:
        rewind = shown["rewind"]
        assert f"resumes: {HOUR_ROWS} rows reprocessed" in answer(rewind, "--back 1h --dry-run")
        assert "until the source had read every row" in answer(rewind, "--back 1h --yes")
        assert f"{VISITS + HOUR_ROWS:,} records" in answer(rewind, "topics show")
        assert "is already in its previous state and is not changed" in answer(rewind, "journal undo")

    if "shrink" in shown:
        check_shrink(shown["shrink"])

    if "lake" in shown:
        lake = shown["lake"]
        assert "USING delta PARTITIONED BY (event_date)" in answer(lake, "pipelines plan")
        assert "✓ landed" in answer(lake, "pipelines run")
        assert f"{PAYMENTS} rows, {PAYMENTS} distinct IDs" in answer(lake, "days.py")
        assert "pipeline/payments" in answer(lake, "offsets move")

    assert "The demo is finished" in output
    assert "Traceback" not in output
    assert not (place / "state").exists()
    check_nothing_is_left(place)


def check_shrink(text):
    assert "seamark copies plan game-click --partitions 12:6" in answer(text, "topics add-partitions")
    assert "passed" in answer(text, "copies verify").lower()
    cutover = answer(text, "copies cutover", which=1)
    assert "no records to reprocess" in cutover
    assert "done" in cutover
    assert f"until {CLICKS + MORE_CLICKS} clicks were in the file" in answer(text, "clicks.py game-click-6")
    assert "done" in answer(text, "copies cleanup")


def test_interrupted_demo_ends_its_servers(place):
    process = start(place, "--chapter", "fleet")
    said = []
    try:
        for line in process.stdout:
            said.append(line)
            if line.startswith("$ seamark status"):
                process.send_signal(signal.SIGINT)
                break
        rest, _ = process.communicate(timeout=150)
    finally:
        end(process)
    assert process.returncode == 130, "".join(said) + rest
    check_nothing_is_left(place)


def test_kept_demo_can_be_used_and_ended_as_it_says(place):
    process = start(place, "--chapter", "fleet", "--keep")
    file = place / "state" / "seamark" / "demo" / "stack.json"
    try:
        output, _ = process.communicate(timeout=300)
        assert process.returncode == 0, output
        assert find_processes(place)
        said = [line.removeprefix("$ ") for line in output.partition("To use them:")[2].splitlines()]
        lines = [line for line in said if line.startswith(("export ", "cd ", "python "))]
        assert len(lines) == 3
        programs = f'python() {{ "{sys.executable}" "$@"; }}; seamark() {{ python -m seamark.cli "$@"; }}'
        done = subprocess.run(
            ["bash", "-c", "\n".join(["set -eu", programs, *lines])],
            env={"PATH": os.environ["PATH"], "HOME": str(place / "home")},
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "2/2" in done.stdout or "2 workers" in done.stdout
        assert "the stack is down" in done.stdout
        assert not file.exists()
        check_nothing_is_left(place)
    finally:
        end(process)
        if file.exists():
            subprocess.run([sys.executable, "-m", "seamark.devstack", "down", "--file", str(file)], check=False)
