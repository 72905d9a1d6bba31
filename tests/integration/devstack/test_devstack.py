"""Two stacks side by side, and nothing left of them when their supervisors are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

from seamark.devstack import load_stack
from seamark.devstack.process import state_of, wait_until


def devstack(*arguments, file, check=True):
    """Run one devstack command on the stack of a file."""
    command = [sys.executable, "-m", "seamark.devstack", *arguments, "--file", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def start_two(folder):
    """Start two stacks at the same time; give their files."""
    files = [folder / "one.json", folder / "two.json"]
    options = [("--postgres", "--s3"), ("--exactly-once", "--standalone")]
    failures = []

    def up(file, extra):
        done = devstack("up", "--name", file.stem, *extra, file=file, check=False)
        if done.returncode:
            failures.append(done.stdout + done.stderr)

    threads = [threading.Thread(target=up, args=pair) for pair in zip(files, options, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    return files


def pids_of(stack):
    """The supervisor, the servers, and what the servers have started themselves."""
    roots = {stack.supervisor_pid, *(entry.pid for entry in stack.servers)}
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    return roots | {pid for pid, parent in parents.items() if parent in roots}


def are_running(stacks):
    return all(state_of(pid) == "running" for stack in stacks for pid in pids_of(stack))


def get(url):
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.load(answer)


def test_two_stacks_run_side_by_side_and_die_with_their_supervisors(tmp_path):
    files = start_two(tmp_path)
    pids = set()
    try:
        stacks = [load_stack(file) for file in files]
        for stack in stacks:
            for endpoint in stack.connect.values():
                root = get(endpoint.urls[0])
                assert root["version"] == "4.3.1"
                assert root["kafka_cluster_id"] == stack.kafka.cluster_id
        assert stacks[0].kafka.cluster_id != stacks[1].kafka.cluster_id
        ports = [entry.port for stack in stacks for entry in stack.servers]
        assert len(ports) == len(set(ports)) == 7
        assert get(stacks[1].standalone.urls[0] + "/connectors") == []

        refused = devstack("up", "--name", "one", file=files[0], check=False)
        assert refused.returncode == 1
        assert "is already running" in refused.stderr

        # PostgreSQL's own processes come and go: a look may find one that has just ended.
        wait_until(lambda: are_running(stacks), "everything of both stacks ran", seconds=60)
        pids = pids_of(stacks[0]) | pids_of(stacks[1])
        # Two supervisors, seven servers, and PostgreSQL's own processes.
        assert len(pids) > 12
    finally:
        for file in files:
            os.kill(load_stack(file).supervisor_pid, signal.SIGKILL)
    wait_until(lambda: all(state_of(pid) == "gone" for pid in pids), "nothing of the stacks ran", seconds=60)
    for file in files:
        stack = load_stack(file)
        said = devstack("status", file=file, check=False)
        assert said.returncode == 1
        assert "its supervisor has ended" in said.stderr
        devstack("down", file=file)
        assert not file.exists()
        assert not Path(stack.folder).exists()


def test_foreground_stack_ends_with_its_caller_also_by_kill(tmp_path):
    file = tmp_path / "stack.json"
    caller = subprocess.Popen(
        ["bash", "-c", f"{sys.executable} -m seamark.devstack up --foreground --workers 0 --file {file} & wait"],
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_until(file.exists, "the stack was ready", seconds=150)
        pids = pids_of(load_stack(file))
        assert len(pids) == 2
    finally:
        caller.kill()
        caller.wait(60)
    wait_until(lambda: all(state_of(pid) == "gone" for pid in pids), "nothing of the stack ran", seconds=60)


def test_servers_are_killed_stopped_continued_and_restarted(tmp_path):
    file = tmp_path / "stack.json"
    devstack("up", "--name", "signals", "--workers", "1", file=file)
    try:
        assert "worker-1" in devstack("status", file=file).stdout
        devstack("stop", "worker-1", file=file)
        assert state_of(load_stack(file).server("worker-1").pid) == "stopped"
        assert devstack("status", file=file, check=False).returncode == 1
        devstack("cont", "worker-1", file=file)
        assert state_of(load_stack(file).server("worker-1").pid) == "running"

        before = load_stack(file).server("worker-1").pid
        devstack("kill", "worker-1", file=file)
        assert state_of(before) == "gone"
        devstack("restart", "worker-1", file=file)
        after = load_stack(file).server("worker-1")
        assert after.pid != before
        assert get(f"http://127.0.0.1:{after.port}/connectors") == []

        assert "Kafka Connect" in devstack("logs", "worker-1", "--lines", "5000", file=file).stdout
        unknown = devstack("kill", "worker-9", file=file, check=False)
        assert unknown.returncode == 1
        assert "broker-1" in unknown.stderr
    finally:
        devstack("down", file=file)
