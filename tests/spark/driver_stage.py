"""A driver on a standalone cluster, and what can be done to it, to its executors and to the servers."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from seamark.devstack.client import ask

ROOT = Path(__file__).parents[2]
WAIT_SECONDS = 600


def wait_for(check, sentence, seconds=WAIT_SECONDS, every=0.05):
    deadline = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < deadline, f"waited {seconds} s until {sentence}"
        time.sleep(every)
    return found


class DriverStage:
    """One job on one stack. `program` is the module that runs it, and takes the file of the job."""

    program = ""
    most_failures = 3

    def __init__(self, stack, folder, *, seed=0):
        self.stack, self.folder = stack, Path(folder)
        self.servers = stack.kafka.bootstrap_servers
        self.random = random.Random(seed)
        self.counts = Counter()
        self.process = None

    def build_job(self):
        """What the program is to know beside where Spark is."""
        raise NotImplementedError

    def start_driver(self):
        """Start the driver, or start it again: it goes on where it was."""
        events = self.folder / "events"
        events.mkdir(exist_ok=True)
        job = {
            "master": self.stack.spark.master,
            "jars": self.stack.spark.jars,
            "conf": {"spark.eventLog.dir": events.as_uri()},
            **self.build_job(),
        }
        path = self.folder / "job.json"
        path.touch(mode=0o600)
        path.write_text(json.dumps(job))
        self.counts["runs"] += 1
        with (self.folder / f"driver-{self.counts['runs']}.log").open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", self.program, str(path)],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def keep_alive(self):
        """A driver that has failed is started again, as a person would. Gives whether the job is through."""
        code = self.process.poll()
        if code is None:
            return False
        if code == 0:
            return True
        self.counts["failed_runs"] += 1
        text = (self.folder / f"driver-{self.counts['runs']}.log").read_text()
        assert self.counts["failed_runs"] <= self.most_failures, f"the driver failed again and again: {text[-4000:]}"
        self.start_driver()
        return False

    def executors(self):
        """The executors of this stack, by process id: others may run on the same machine."""
        ours = {f":{entry.port}" for entry in self.stack.servers if entry.kind == "spark-worker"}
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_text().split("\0")
            except OSError:
                continue
            if "org.apache.spark.executor.CoarseGrainedExecutorBackend" in words and any(
                word.startswith("spark://Worker@") and word[word.rindex(":") :] in ours for word in words
            ):
                found.append(int(folder.name))
        return found

    def kill_executor(self):
        found = self.executors()
        if found:
            os.kill(self.random.choice(found), signal.SIGKILL)
            self.counts["executor_kills"] += 1

    def kill_driver(self):
        # The JVM is a child of the Python process, and both are the driver.
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)
        self.counts["driver_kills"] += 1
        self.start_driver()

    def restart_broker(self):
        """SIGKILL, and a new start."""
        name = f"broker-{self.random.randint(1, len(self.servers.split(',')))}"
        ask(Path(self.stack.folder), "restart", name)
        self.counts["broker_restarts"] += 1

    def count_tasks(self):
        """Of all runs: tasks that were lost with their executor, that failed, and speculative copies."""
        found = Counter(lost_tasks=0, failed_tasks=0, speculative_tasks=0)
        for file in (self.folder / "events").iterdir():
            for line in file.read_text().splitlines():
                if not line.startswith('{"Event":"SparkListenerTaskEnd"'):
                    continue
                try:
                    event = json.loads(line)
                except ValueError:
                    continue
                reason = event["Task End Reason"]["Reason"]
                found["lost_tasks"] += reason == "ExecutorLostFailure"
                found["failed_tasks"] += reason == "ExceptionFailure"
                found["speculative_tasks"] += event["Task Info"]["Speculative"]
        return found

    def end(self):
        """End the driver, whatever it does."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(30)
