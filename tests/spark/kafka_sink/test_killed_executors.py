"""Executors of a real cluster, killed in the middle of their transactions; and a driver killed likewise."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.spark.kafka_side import numbers

ROOT = Path(__file__).parents[3]
ROWS, TASKS = 24_000, 4
# A driver and its executors are five JVMs. On a busy machine an executor takes three minutes to start, and one that was
# killed is started anew.
WAIT_SECONDS = 900


@pytest.fixture
def job(stack, kafka, tmp_path):
    """Starts the slow job; gives its process, its topic and the folder of marks."""
    topic = kafka.topic()
    started = []

    def start(pace="even"):
        command = [sys.executable, str(Path(__file__).with_name("slow_job.py")), stack.spark.master, kafka.servers]
        path = tmp_path.parent / f"{tmp_path.name}-{len(started)}.log"
        with path.open("w") as log:
            process = subprocess.Popen(
                [*command, kafka.control, topic, str(ROWS), str(TASKS), str(tmp_path), pace],
                # The driver finds the planted sink here, whatever the caller's own path is.
                env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
                stdout=log,
                stderr=log,
            )
        process.log = path
        started.append(process)
        return process, topic, tmp_path

    yield start
    for process in started:
        process.kill()
        process.wait(30)


def wait_for(check, sentence, seconds=WAIT_SECONDS, *, job=None):
    """Wait, but not for a job that has failed."""
    deadline = time.monotonic() + seconds
    while not (found := check()):
        assert job is None or not job.poll(), f"the job failed before {sentence}: {job.log.read_text()[-3000:]}"
        assert time.monotonic() < deadline, f"waited {seconds} s until {sentence}"
        time.sleep(0.1)
    return found


def executors():
    """The processes of executors, by their command line."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"org.apache.spark.executor.CoarseGrainedExecutorBackend" in words:
            found.add(int(folder.name))
    return found


def executor_above(pid):
    """The executor that a Python process belongs to."""
    while pid > 1 and pid not in executors():
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid


def test_executor_killed_in_a_transaction(kafka, job):
    process, topic, marks = job()
    killed = {kill_one(process, marks, begun=begun) for begun in (1, 3)}
    wait_for(lambda: process.poll() == 0, "the job was done", job=process)
    assert len(killed) == 2
    assert max(int(mark.name.split("-")[1]) for mark in marks.iterdir()) >= 1
    assert kafka.count(topic) == numbers(ROWS)
    # Somebody was in the middle: their rows are there for those who read what was taken back.
    assert sum(kafka.count(topic, committed=False).values()) > ROWS


def kill_one(job, marks, *, begun):
    """Kill the executor of a task that is in the middle, when so many have been there."""

    def in_the_middle():
        seen = list(marks.iterdir())
        return [mark for mark in seen if is_alive(mark)] if len(seen) >= begun else []

    there = wait_for(in_the_middle, f"{begun} tasks were in the middle", job=job)
    newest = max(there, key=lambda mark: mark.stat().st_mtime)
    victim = executor_above(int(newest.name.split("-")[2]))
    assert victim > 1
    os.kill(victim, signal.SIGKILL)
    wait_for(lambda: victim not in executors(), "the executor was gone", 20)
    return victim


def is_alive(mark):
    return Path(f"/proc/{mark.name.split('-')[2]}").exists()


def test_driver_killed_and_job_run_again(kafka, job):
    process, topic, _ = job()
    wait_for(lambda: finished(kafka), "a task was done", job=process)
    process.kill()
    process.wait(30)
    before = {record.claim.task for record in finished(kafka)}
    again, _, _ = job()
    wait_for(lambda: again.poll() == 0, "the job was done", job=again)
    assert 1 <= len(before) <= TASKS
    assert kafka.count(topic) == numbers(ROWS)
    assert {record.claim.task for record in kafka.records_of_tasks()} == set(range(TASKS))


def finished(kafka):
    from confluent_kafka import KafkaException  # noqa: PLC0415

    try:
        return kafka.records_of_tasks()
    except (KeyError, KafkaException):
        return []


def test_speculative_copy_of_a_task_writes_nothing_twice(kafka, job):
    process, topic, marks = job("straggler")
    wait_for(lambda: process.poll() == 0, "the job was done", job=process)
    attempts = {int(mark.name.split("-")[1]) for mark in marks.iterdir() if mark.name.startswith("0-")}
    assert attempts == {0, 1}, "Spark started no copy"
    assert kafka.count(topic) == numbers(ROWS)
    assert sum(kafka.count(topic, committed=False).values()) > ROWS
