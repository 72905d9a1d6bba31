"""What the fault tests share: a connector to try things on, and operators as child processes."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path
from unittest.mock import patch

from confluent_kafka import Consumer, KafkaException, TopicPartition

import seamark
import tests.step_list  # noqa: F401 - journals of guarded changes are read here
from seamark.changes.interruption import POINTS
from seamark.cli.main import execute
from seamark.cli.session import Session
from seamark.context import open_context
from seamark.devstack.process import state_of, wait_until
from tests.fault.journal_key import write_journal_key
from tests.integration.offset_tools import read_partition
from tests.integration.waits import TRIES, says_hindered

ROOT = Path(__file__).parents[2]
SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
# Short, so that a lost answer is settled within seconds; one case runs with the real 90 s.
IN_FLIGHT = "3s"
TOPIC = "seamark-journal"
# Neighbours rebalance all the time, on a busy machine.
SETTLE_SECONDS = 120
# Once in a change; the others are reached by each step.
ENDS = ("after-open", "before-close", "after-close")
# How often each point of a matrix is taken; one that is to be shown takes each three times.
TIMES = int(os.environ.get("SEAMARK_KILLS", "1"))


def list_points(steps):
    """All points of a change, as a failpoint names them; `steps` has a letter per step.

    `a` acts; `w` only checks or waits, and has no intent and no request; `-` doesn't run.
    """
    reached = {"a": [point for point in POINTS if point not in ENDS], "w": ["before-intent", "after-outcome"], "-": []}
    return (
        *(f"{point}:{number}" for number, kind in enumerate(steps) for point in reached[kind]),
        *(f"{point}:0" for point in ENDS),
    )


class Rig:
    """One connector on a stack, and the commands that change it."""

    def __init__(self, stack, folder, *, journal="kafka", in_flight=IN_FLIGHT, topic=TOPIC, cluster="connect"):
        self.stack = stack
        self.cluster = cluster
        self.folder = folder
        self.journal = journal
        write_journal_key(folder / "state")
        self.topic = topic
        self.name = f"fault-{uuid.uuid4().hex[:10]}"
        self.owner = f"{cluster}/{self.name}"
        self.input = folder / f"{self.name}.txt"
        self.input.write_text("one\ntwo\n")
        self.env = {
            **os.environ,
            "SEAMARK_CONFIG": stack.context_file,
            "SEAMARK_CONTEXTS__DEV__IN_FLIGHT_TIMEOUT": in_flight,
            "SEAMARK_CONTEXTS__DEV__JOURNAL": journal,
            "SEAMARK_CONTEXTS__DEV__JOURNAL_TOPIC": topic,
            "SEAMARK_CONTEXTS__DEV__JOURNAL_FOLDER": str(folder / "journal"),
            "XDG_STATE_HOME": str(folder / "state"),
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
        }
        self.env.pop("SEAMARK_FAILPOINT", None)
        self._fleet = None

    @property
    def urls(self):
        return self.stack.connect[self.cluster].urls

    def call(self, method, path, body=None, *, url=None):
        """A plain REST call, past seamark; to the first worker, or to this one."""
        request = urllib.request.Request(
            (url or self.urls[0]) + path,
            method=method,
            data=json.dumps(body).encode() if body is not None else None,
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=100) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def create(self):
        """The connector, running."""
        config = {"connector.class": SOURCE, "tasks.max": "1", "file": str(self.input), "topic": self.name, "mark": "0"}
        self.put(self.name, config)
        wait_until(self.runs, f"{self.name} ran", seconds=SETTLE_SECONDS)

    def put(self, name, config):
        """Have Connect take a config; a rebalance is waited out."""

        def accepted():
            try:
                self.call("PUT", f"/connectors/{name}/config", config)
            except urllib.error.HTTPError as error:
                if error.code not in (409, 500):
                    raise
                return False
            return True

        wait_until(accepted, f"Connect took {name}", seconds=SETTLE_SECONDS, every_seconds=0.5)

    def read(self, path, *, url=None):
        """A plain GET. While a rebalance goes on Connect answers some with 409 or 500; a worker that lags says 404."""
        answers = []

        def answered():
            try:
                answers.append(self.call("GET", path, url=url))
            except urllib.error.HTTPError as error:
                if error.code not in (404, 409, 500):
                    raise
                return False
            return True

        wait_until(answered, f"Connect answered GET {path}", seconds=SETTLE_SECONDS, every_seconds=0.3)
        return answers[0]

    def _read_agreed(self, path, pick, is_told):
        """What all workers say alike: the one that seamark asked may have heard of something before the others."""
        said = []

        def agreed():
            said[:] = [pick(self.read(path, url=url)) for url in self.urls]
            return all(one == said[0] for one in said) and is_told(said[0])

        wait_until(agreed, f"the workers agreed on {path}", seconds=SETTLE_SECONDS, every_seconds=0.3)
        return said[0]

    def config(self):
        return self._read_agreed(f"/connectors/{self.name}/config", lambda config: config, bool)

    def state(self):
        """The run state. A rebalance of another connector shows this one UNASSIGNED for a moment."""
        return self._read_agreed(
            f"/connectors/{self.name}/status",
            lambda status: status["connector"]["state"],
            lambda state: state != "UNASSIGNED",
        )

    def runs(self):
        try:
            status = self.call("GET", f"/connectors/{self.name}/status")
        except urllib.error.HTTPError:
            return False
        return {status["connector"]["state"], *(task["state"] for task in status["tasks"])} == {"RUNNING"} and bool(
            status["tasks"]
        )

    def delete(self):
        if self._fleet is not None:
            self._fleet.close()
        self.remove(self.name)

    def remove(self, name):
        def gone():
            try:
                self.call("DELETE", f"/connectors/{name}")
            except urllib.error.HTTPError as error:
                return error.code == 404
            return False

        wait_until(gone, f"{name} was gone", seconds=SETTLE_SECONDS, every_seconds=0.5)

    def start(self, *arguments, failpoint=None):
        """An operator: a Python module with arguments, as a child process."""
        env = self.env | ({"SEAMARK_FAILPOINT": failpoint} if failpoint else {})
        return subprocess.Popen(
            [sys.executable, "-m", *arguments],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments, failpoint=None, timeout=240):
        """An operator to its end: exit code, what it said."""
        process = self.start(*arguments, failpoint=failpoint)
        out, err = process.communicate(timeout=timeout)
        return process.returncode, out, err

    def seamark(self, *arguments, **options):
        return self.run("tests.fault.cli", *arguments, **options)

    def execute(self, *arguments):
        """The same within this process, which costs less: exit code, what it said."""
        out, err = io.StringIO(), io.StringIO()
        with patch.dict(os.environ, self.env, clear=True):
            code = execute(arguments, session=Session(out=out, err=err, stdin=io.StringIO()))
        return code, out.getvalue(), err.getvalue()

    def run_killed(self, point, *arguments, ending=0):
        """Run a command that is killed at a point, and finish its change, which ends with this exit code.

        It is run again where a rebalance kept it from its point. Gives the change.
        """
        for _ in range(TRIES):
            code, out, err = self.seamark(*arguments, failpoint=f"{point}:kill")
            if not is_hindered(code, out, err):
                break
            self.finish()
        assert code == -signal.SIGKILL, (point, code, out, err)
        change = self.read_last()
        if not point.startswith("after-close"):
            assert change["state"] == "open", (point, change)
            for _ in range(TRIES):
                code, out, err = self.execute("journal", "resume", change["change"], "--yes")
                if code == ending or not is_hindered(code, out, err):
                    break
            assert code == ending, (point, code, out, err)
            change = self.read_last()
        assert change["state"] == ("done" if ending == 0 else "partly"), (point, change)
        return change["change"]

    def undo(self, change):
        """Undo a change, again while a rebalance hinders it; gives what was said."""
        ended = []

        def is_over():
            ended[:] = self.execute("journal", "undo", change, "--yes")
            return ended[0] != 6

        wait_until(is_over, f"the rebalances did not hinder the undo of {change}", seconds=SETTLE_SECONDS)
        assert ended[0] == 0, ended
        return ended[1]

    def read_last(self):
        """The newest change of this connector."""
        code, out, err = self.execute("journal", "list", self.owner, "--limit", "1", "-o", "json")
        assert code == 0, err
        return json.loads(out)["items"][0]

    def repeat(self, *arguments):
        """A command, again while it is refused because of a rebalance (exit code 6): its hint says to repeat it."""
        ended = []

        def is_over():
            ended.append(self.seamark(*arguments))
            return ended[-1][0] != 6

        wait_until(is_over, f"the rebalances did not hinder {arguments}", seconds=SETTLE_SECONDS)
        return ended[-1]

    def guarded(self, value, **options):
        return self.run_unhindered("tests.fault.guarded", self.owner, "mark", value, **options)

    def run_unhindered(self, *arguments, **options):
        """A change to its end, again where a rebalance kept it from it."""
        for _ in range(TRIES):
            # A rebalance of another connector shows this one UNASSIGNED for a moment, and seamark then rightly waits.
            wait_until(self.runs, f"{self.name} ran", seconds=SETTLE_SECONDS)
            ended = self.run(*arguments, **options)
            if not is_hindered(*ended):
                break
            self.finish()
        return ended

    def resume(self, change):
        """`journal resume`, again where a rebalance hinders it: exit code, what it said."""
        for _ in range(TRIES):
            ended = self.seamark("journal", "resume", change, "--yes")
            if not is_hindered(*ended):
                break
        return ended

    def finish(self):
        """Nothing is open any more, as an operator is told to see to it."""

        def is_over():
            opened = [change["change"] for change in self.list_by_command() if change["state"] == "open"]
            return all(self.resume(change)[0] == 0 for change in opened)

        wait_until(is_over, f"{self.name} had no open change", seconds=SETTLE_SECONDS, every_seconds=1)

    def list_by_command(self):
        """The changes of this connector, the newest first, as `journal list` tells them.

        For whoever kills brokers: librdkafka may take the process with it that asks (librdkafka#4605).
        """
        # The neighbours' are in it too, and more than the usual twenty newest.
        code, out, err = self.seamark("journal", "list", "--limit", "1000", "-o", "json")
        assert code == 0, err
        return [row for row in json.loads(out)["items"] if self.name in row["title"]]

    def changes(self):
        """The same without a command: it is asked some hundred times, and a process costs seconds here."""
        if self._fleet is None:
            self._fleet = seamark.Fleet(open_context(environ=self.env))
        return [
            {"change": head.change, "state": "open" if head.is_open else head.ending}
            for head in self._fleet.journal.list()
            if self.name in head.title
        ]

    def entries(self, change):
        code, out, err = self.seamark("journal", "show", change, "-o", "json")
        assert code == 0, err
        return json.loads(out)


def read_bounds(consumer, topic, *, seconds=60):
    """Where a topic of one partition begins and ends; (0, 0) where there is none yet."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
        except KafkaException as error:
            name = error.args[0].name()
            if name in {"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"}:
                return 0, 0
            # A topic that was just made: its leader may hear of that last.
            if name not in {"NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE"} or time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def build_counter(stack):
    """What counts the records of a topic of one partition; none where there is no such topic yet."""

    def count(topic):
        # A client that once asked for a topic which was not there yet goes on believing that for a while.
        consumer = Consumer({"bootstrap.servers": stack.kafka.bootstrap_servers, "group.id": "count-records"})
        try:
            low, high = read_bounds(consumer, topic)
        finally:
            consumer.close()
        if stack.connect["connect"].exactly_once:
            # Behind its records a transaction leaves a marker, which is none.
            return len(read_partition(stack.kafka.bootstrap_servers, topic))
        return high - low

    return count


def is_hindered(code, out, err):
    """Whether a command says that Connect, in a rebalance, kept it from its work: then it is to be repeated."""
    return code in (1, 3, 5, 6) and says_hindered(out + err)


def wait_stopped(process, *, seconds=120):
    """Wait until a child has stopped itself at its failpoint. A neighbour's rebalance can hold it up for a minute."""

    def is_stopped():
        assert process.poll() is None, f"the child ended with {process.returncode}: {process.communicate()[1]}"
        return state_of(process.pid) == "stopped"

    wait_until(is_stopped, "the child stopped at its failpoint", seconds=seconds)


def kill_quietly(process):
    """End a child that a failing test left behind."""
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
