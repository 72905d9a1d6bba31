"""A connector's life on real servers: each verb through the command line, each undone, with both kinds of journal."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest

import seamark.fleet.changes
from seamark.changes.timing import ChangeTiming
from seamark.cli.main import execute
from seamark.cli.session import Session
from seamark.kafka.topics import TopicAdmin
from tests.integration.rest import DEADLINE_SECONDS, call, call_until
from tests.integration.waits import wait_for

# Many changes, each with its rebalances: on a busy machine they take minutes.
pytestmark = pytest.mark.timeout(600)
ROOT = Path(__file__).parents[3]
# A command may wait for a rebalance several times, each longer than a minute on a busy machine.
COMMAND_SECONDS = 200


def call_raw(url, *, method="GET", body=None):
    """The same, with the answer's bytes as they came."""
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(url, method=method, data=data, headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=100) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, None


def wait_until(is_done, what):
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_done():
        assert time.monotonic() < deadline, f"waited {DEADLINE_SECONDS} s for {what}"
        time.sleep(0.2)


@dataclass
class Ended:
    code: int
    out: str
    err: str


class Desk:
    """An operator's place: a context with a journal, a connector's name, and command lines."""

    def __init__(self, stack, folder, *, journal, cluster="connect"):
        self.name = f"life-{uuid.uuid4().hex[:8]}"
        self.folder = folder
        self.cluster = cluster
        self.endpoint = stack.connect[cluster]
        self.bootstrap = stack.kafka.bootstrap_servers
        self.topic = f"journal-{self.name}"
        self.input = folder / "in.txt"
        self.input.write_text("one\ntwo\n")
        config = {
            "current": "dev",
            "contexts": {
                "dev": {
                    "journal": journal,
                    "journal_folder": str(folder / "journal"),
                    "journal_topic": self.topic,
                    "in_flight_timeout": "3s",
                    "policy": {"files": ["/**"]},
                    "kafka": {"bootstrap.servers": self.bootstrap},
                    "connect": {
                        cluster: {"urls": list(self.endpoint.urls), "worker_config": self.endpoint.worker_config}
                    },
                }
            },
        }
        (folder / "seamark.yaml").write_text(json.dumps(config))
        self.environ = {
            **{key: value for key, value in os.environ.items() if not key.startswith("SEAMARK_")},
            "SEAMARK_CONFIG": str(folder / "seamark.yaml"),
            "XDG_STATE_HOME": str(folder / "state"),
        }

    def run(self, *argv):
        """One command line in this process."""
        out, err = io.StringIO(), io.StringIO()
        code = execute(argv, session=Session(out=out, err=err, stdin=io.StringIO()))
        return Ended(code, out.getvalue(), err.getvalue())

    def must(self, *argv):
        ended = self.run(*argv)
        assert ended.code == 0, ended.out + ended.err
        return ended

    def start(self, *argv, **environ):
        """One command line in a process of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "tests.fault.cli", *argv],
            env={**self.environ, **environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def write(self, body, name="connector.json"):
        path = self.folder / name
        path.write_text(json.dumps(body))
        return str(path)

    def config(self, **changes):
        base = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(self.input), "topic": self.name}
        return base | changes

    def url(self, path="", *, worker=0):
        return f"{self.endpoint.urls[worker]}/connectors/{self.name}{path}"

    def look(self):
        """The connector as Connect tells it: the config's bytes as they come, and what it is meant to do."""
        status, config = self._read("/config")
        if status == 404:
            return None
        status, told = self._read("/status")
        # Right behind a create Connect has no status yet.
        return config, json.loads(told)["connector"]["state"] if status == 200 else ""

    def await_look(self, wanted):
        """The same, once it is so: this worker may lag behind the one that seamark asked, and a neighbour's rebalance
        shows UNASSIGNED for a moment."""
        return wait_for(self.look, lambda now: now == wanted, f"{self.name} to be {wanted}")

    def await_state(self, state):
        return wait_for(self.look, lambda now: now is not None and now[1] == state, f"{self.name} to be {state}")

    def await_config(self, is_so):
        return wait_for(self.look, lambda now: now is not None and is_so(now[0]), f"the config of {self.name}")

    def _read(self, path):
        """A GET; while a rebalance goes on Connect answers some with 409 or 500."""
        answers = []

        def is_answered():
            answers.append(call_raw(self.url(path)))
            return answers[-1][0] in {200, 404}

        wait_until(is_answered, f"Connect to answer GET {path}")
        return answers[-1]

    def put(self, config):
        """What somebody else does, past seamark. A rebalance refuses it first."""
        call_until(self.url("/config"), lambda status, _: status == 200, method="PUT", body=config)

    def newest(self):
        return self.must("journal", "list", "--limit", "1", "-o", "name").out.strip()

    def open_changes(self):
        return self.must("journal", "list", "--state", "open", "-o", "name").out.split()

    def create(self):
        file = self.write({"name": self.name, "config": self.config()})
        self.must("connectors", "create", "-f", file, "--yes")
        wait_until(self.has_task, "the task to run")
        return self.await_state("RUNNING")

    def has_task(self):
        status, answer = call(self.url("/status"))
        return status == 200 and [task["state"] for task in answer["tasks"]] == ["RUNNING"]

    def clean(self):
        wait_until(lambda: call(self.url(), method="DELETE")[0] in {204, 404}, "the connector to be gone")
        with TopicAdmin({"bootstrap.servers": self.bootstrap}) as admin:
            admin.delete_topics([self.topic, f"{self.topic}-heads", self.name])


@pytest.fixture
def build_desk(stack, tmp_path, monkeypatch):
    desks = []

    def build(*, journal="file", cluster="connect"):
        desk = Desk(stack, tmp_path, journal=journal, cluster=cluster)
        desks.append(desk)
        for key in [key for key in os.environ if key.startswith("SEAMARK_")]:
            monkeypatch.delenv(key)
        monkeypatch.setenv("SEAMARK_CONFIG", desk.environ["SEAMARK_CONFIG"])
        monkeypatch.setenv("XDG_STATE_HOME", desk.environ["XDG_STATE_HOME"])
        return desk

    yield build
    for desk in desks:
        desk.clean()


def undo(desk):
    return desk.must("journal", "undo", desk.newest(), "--yes")


@pytest.mark.parametrize("journal", ["file", "kafka"])
def test_every_verb_is_done_and_undone(build_desk, journal):
    desk = build_desk(journal=journal)
    if journal == "kafka":
        refused = desk.run("connectors", "create", "-f", desk.write({"name": desk.name, "config": desk.config()}), "-y")
        assert refused.code == 1
        assert "seamark init" in refused.err
    desk.must("init", "--yes")
    before = desk.create()
    created = desk.newest()

    verbs = {
        "pause": (["connectors", "pause", desk.name], lambda now: now == (before[0], "PAUSED")),
        "stop": (["connectors", "stop", desk.name], lambda now: now == (before[0], "STOPPED")),
        "set": (
            ["connectors", "update", desk.name, "--set", "batch.size=7", "--unset", "tasks.max"],
            lambda now: now is not None and b'"batch.size":"7"' in now[0] and b"tasks.max" not in now[0],
        ),
        "change": (
            ["connectors", "update", desk.name, "-f", desk.write(desk.config(**{"batch.size": "9"}), "new.json")],
            lambda now: now is not None and b'"batch.size":"9"' in now[0],
        ),
        "delete": (["connectors", "delete", desk.name], lambda now: now is None),
    }
    for verb, (argv, is_done) in verbs.items():
        ended = desk.must(*argv, "--yes")
        wait_for(desk.look, is_done, verb)
        assert f"Undo: seamark journal undo {desk.newest()}" in ended.out
        undo(desk)
        desk.await_look(before)

    desk.must("connectors", "pause", desk.name, "--yes")
    desk.must("connectors", "resume", desk.name, "--yes")
    desk.await_look(before)
    undo(desk)
    desk.await_state("PAUSED")
    desk.must("connectors", "resume", desk.name, "--yes")
    desk.must("journal", "undo", created, "--yes")
    desk.await_look(None)
    listed = desk.must("journal", "list", "--limit", "100", "-o", "json").out
    assert {change["state"] for change in json.loads(listed)["items"]} == {"done"}
    assert len(json.loads(listed)["items"]) == 1 + 2 * len(verbs) + 4 + 1
    assert desk.open_changes() == []
    # The connector is gone: its changes are found by the locks that they held.
    own = ["journal", "list", desk.name, "--limit", "100", "-o", "name"]
    mine = desk.must(*own).out.split()
    assert mine == [change["change"] for change in json.loads(listed)["items"]]
    assert desk.must(*own, "--since", "1h", "--state", "done").out.split() == mine
    assert desk.must(*own, "--by", "nobody-else").out == ""
    assert desk.must("journal", "list", f"{desk.name}-none", "-o", "name").out == ""
    assert desk.must("journal", "list", "--limit", "2", f"connect/{desk.name}", "-o", "name").out.split() == mine[:2]


def test_a_stopped_connector_is_brought_back_stopped(build_desk):
    desk = build_desk()
    desk.create()
    # A task that is stopped before it has read anything leaves no offset.
    call_until(desk.url("/offsets"), lambda status, answer: status == 200 and answer["offsets"])
    desk.must("connectors", "stop", desk.name, "--yes")
    before = desk.await_state("STOPPED")
    ended = desk.must("connectors", "delete", desk.name, "--yes")
    assert "source offset" in ended.out
    undo(desk)
    desk.await_look(before)


@pytest.mark.parametrize("journal", ["file", "kafka"])
def test_a_failed_task_is_started_again(build_desk, journal):
    desk = build_desk(journal=journal)
    desk.must("init", "--yes")
    folder = desk.folder / "missing"
    config = {
        "connector.class": "FileStreamSink",
        "tasks.max": "1",
        "file": str(folder / "out.txt"),
        "topics": desk.name,
    }
    file = desk.write({"name": desk.name, "config": config})
    created = desk.must("connectors", "create", "-f", file, "-y", "--no-wait")
    assert f"no group connect-{desk.name} exists" in created.out

    def is_failed():
        answer = call(desk.url("/status"))[1]
        return answer is not None and [task["state"] for task in answer["tasks"]] == ["FAILED"]

    wait_until(is_failed, "the task to fail")
    before = desk.await_state("RUNNING")
    for _ in range(5):
        folder.mkdir()
        ended = desk.must("connectors", "restart", desk.name, "--yes")
        if "No changes." not in ended.out:
            break
        # A rebalance for another test started it a moment before us: once more.
        shutil.rmtree(folder)
        call_until(desk.url("/tasks/0/restart"), lambda status, _: status == 204, method="POST")
        wait_until(is_failed, "the task to fail again")
    assert "restarts task 0" in ended.out
    wait_until(desk.has_task, "the task to run again")
    # A task that runs again leaves nothing to put back, and its undo says so.
    undone = desk.run("journal", "undo", desk.newest(), "--yes")
    assert (undone.code, "No changes." in undone.out) == (0, True), undone.out + undone.err
    desk.await_look(before)
    nothing = desk.must("connectors", "restart", desk.name)
    assert "No changes." in nothing.out
    deleted = desk.must("connectors", "delete", desk.name, "--yes")
    assert f"group connect-{desk.name} is kept" in deleted.out
    again = desk.must("connectors", "create", "-f", desk.write({"name": desk.name, "config": config}), "--dry-run")
    assert f"group connect-{desk.name} exists" in again.out


def find_output(desk, folder="out"):
    """A sink, whose task fails where the folder of its file is missing."""
    return {
        "connector.class": "FileStreamSink",
        "tasks.max": "1",
        "file": str(desk.folder / folder / "out.txt"),
        "topics": desk.name,
    }


@pytest.mark.parametrize("cluster", ["connect", "connect-3-5-2"])
def test_what_does_not_run_is_restored(build_desk, cluster):
    desk = build_desk(cluster=cluster)
    file = desk.write({"name": desk.name, "config": find_output(desk, "missing")})

    failed = desk.run("connectors", "create", "-f", file, "--yes")
    assert failed.code == 3, failed.out + failed.err
    assert "FileNotFoundException" in failed.err + failed.out or "Couldn't find or create file" in failed.err
    desk.await_state("STOPPED")
    undo(desk)
    desk.await_look(None)

    failed = desk.run("connectors", "create", "-f", file, "--yes", "--delete-on-failure")
    assert failed.code == 3, failed.out + failed.err
    desk.await_look(None)

    (desk.folder / "out").mkdir()
    desk.must("connectors", "create", "-f", desk.write({"name": desk.name, "config": find_output(desk)}), "--yes")
    before = desk.await_state("RUNNING")
    failed = desk.run("connectors", "update", desk.name, "--set", f"file={desk.folder}/missing/out.txt", "--yes")
    assert failed.code == 3, failed.out + failed.err
    desk.await_look(before)
    wait_until(desk.has_task, "the previous config to run")

    desk.must("connectors", "pause", desk.name, "--yes")
    desk.must("connectors", "update", desk.name, "--set", f"file={desk.folder}/missing/out.txt", "--yes")
    paused = desk.await_state("PAUSED")
    failed = desk.run("connectors", "resume", desk.name, "--yes")
    if cluster == "connect":
        assert failed.code == 3, failed.out + failed.err
        desk.await_look(paused)
    assert desk.open_changes() == []


@pytest.mark.parametrize("cluster", ["connect", "connect-3-5-2"])
def test_a_connector_paused_by_hand_is_drift_where_its_state_is_managed(build_desk, cluster):
    desk = build_desk(cluster=cluster)
    entry = {"name": desk.name, "config": desk.config()}
    managed = desk.write({"connectors": [{**entry, "manage_state": True}]}, "spec.yaml")
    desk.must("apply", "-f", managed, "--yes")
    wait_until(desk.has_task, "the task to run")
    before = desk.await_state("RUNNING")
    assert desk.run("plan", "-f", managed, "--detailed-exitcode").code == 0

    call_until(desk.url("/pause"), lambda status, _: status == 202, method="PUT")
    desk.await_state("PAUSED")
    planned = desk.run("plan", "-f", managed, "--detailed-exitcode", "-o", "json")
    assert planned.code == 2, planned.out + planned.err
    ((drift,), (effect,)) = (json.loads(planned.out)[key] for key in ("drift", "effects"))
    (field,) = drift["fields"]
    assert (field["key"], field["applied"], field["live"]) == ("state", "RUNNING", "PAUSED")
    assert effect["effect"] == "resume: 1 task runs again"
    desk.must("apply", "-f", managed, "--yes")
    desk.await_look(before)
    wait_until(desk.has_task, "the task to run again")
    undo(desk)
    desk.await_look((before[0], "PAUSED"))

    # Without manage_state, the state counts at creation only.
    desk.write({"connectors": [entry]}, "spec.yaml")
    plain = desk.run("plan", "-f", managed, "--detailed-exitcode")
    assert (plain.code, "drift" in plain.out) == (0, False), plain.out + plain.err
    desk.must("apply", "-f", managed, "--yes")
    desk.await_look((before[0], "PAUSED"))

    # It is stopped by its spec, too, and an undo restores what was there.
    desk.write({"connectors": [{**entry, "manage_state": True, "state": "stopped"}]}, "spec.yaml")
    desk.must("apply", "-f", managed, "--yes")
    desk.await_state("STOPPED")
    undo(desk)
    desk.await_look((before[0], "PAUSED"))
    assert desk.open_changes() == []


def test_a_rolling_restart_stops_at_the_first_failure(build_desk):
    desk = build_desk()
    names = [f"{desk.name}-{number}" for number in range(3)]
    try:
        for name in names:
            (desk.folder / name).mkdir()
            file = desk.write({"name": name, "config": find_output(desk, name)})
            desk.must("connectors", "create", "-f", file, "--yes")
        rolled = desk.must("connectors", "restart", *names, "--all", "--yes")
        assert "at most 1 at once" in rolled.out
        assert rolled.out.count("restarts it and 1 task") == 3
        one = desk.must("connectors", "restart", *names, "--task", "0", "--pace", "3", "--yes")
        assert one.out.count("restarts task 0") == 3

        shutil.rmtree(desk.folder / names[1])
        failed = desk.run("connectors", "restart", *names, "--all", "--yes", "-o", "json")

        assert failed.code == 3, failed.out + failed.err
        result = json.loads(failed.out)
        assert [step["outcome"] for step in result["steps"]] == ["done", "done", "done", "did not happen"]
        assert len(result["left"]) == 2
        (desk.folder / names[1]).mkdir()
        desk.must("connectors", "restart", names[1], "--yes")
    finally:
        for name in names:
            desk.run("connectors", "delete", name, "--confirm", name)


@pytest.mark.parametrize("journal", ["file", "kafka"])
def test_a_second_operator_is_refused_while_the_first_is_at_work(build_desk, journal):
    desk = build_desk(journal=journal)
    desk.must("init", "--yes")
    desk.create()
    first = desk.start("connectors", "pause", desk.name, "--yes", SEAMARK_FAILPOINT="after-intent:0:stop")
    try:
        wait_until(lambda: bool(desk.open_changes()), "the first operator to be at work")
        (change,) = desk.open_changes()
        second = desk.run("connectors", "stop", desk.name, "--yes")
        assert second.code == 5
        assert change in second.err
        desk.await_state("RUNNING")
    finally:
        first.send_signal(signal.SIGCONT)
        out, err = first.communicate(timeout=COMMAND_SECONDS)
    assert first.returncode == 0, out + err
    desk.await_state("PAUSED")
    assert desk.run("connectors", "stop", desk.name, "--yes").code == 0


def test_a_stale_plan_is_refused(build_desk):
    desk = build_desk()
    desk.create()
    plan = str(desk.folder / "plan.json")
    desk.must("connectors", "update", desk.name, "--set", "batch.size=7", "--out", plan)
    assert b"batch.size" not in desk.look()[0]
    desk.put(desk.config(**{"batch.size": "3"}))
    desk.await_config(lambda found: b'"batch.size":"3"' in found)
    stale = desk.run("apply", plan, "--yes")
    assert stale.code == 5
    assert "the plan is out of date" in stale.err
    assert b'"batch.size":"3"' in desk.look()[0]
    desk.put(desk.config())
    desk.await_config(lambda found: b"batch.size" not in found)
    desk.must("apply", plan, "--yes")
    desk.await_config(lambda found: b'"batch.size":"7"' in found)


@pytest.fixture
def in_a_hurry(monkeypatch):
    """The dead process sent nothing, so nothing needs to be waited out for long."""

    def fast(in_flight_seconds):
        return ChangeTiming(
            in_flight_seconds, begin_seconds=1, send_seconds=2, shows_seconds=2, foreign_seconds=1, look_seconds=0.2
        )

    monkeypatch.setattr(seamark.fleet.changes, "build_timing", fast)


@pytest.mark.parametrize("point", ["after-intent:0:kill", "after-perform:0:kill"])
def test_a_crash_is_resumed_and_undone(build_desk, in_a_hurry, point):
    desk = build_desk()
    before = desk.create()
    killed = desk.start("connectors", "stop", desk.name, "--yes", SEAMARK_FAILPOINT=point)
    killed.communicate(timeout=COMMAND_SECONDS)
    assert killed.returncode == -signal.SIGKILL
    (change,) = desk.open_changes()
    assert desk.run("connectors", "pause", desk.name, "--yes").code == 5
    desk.must("journal", "resume", change, "--yes")
    desk.await_look((before[0], "STOPPED"))
    desk.must("journal", "undo", change, "--yes")
    desk.await_look(before)
    assert desk.open_changes() == []


def test_a_crash_is_undone_without_being_finished(build_desk, in_a_hurry):
    desk = build_desk()
    before = desk.create()
    argv = ["connectors", "update", desk.name, "--set", "batch.size=7", "--yes"]
    killed = desk.start(*argv, SEAMARK_FAILPOINT="after-perform:0:kill")
    killed.communicate(timeout=COMMAND_SECONDS)
    (change,) = desk.open_changes()
    desk.must("journal", "undo", change, "--yes")
    desk.await_look(before)
    shown = desk.must("journal", "show", change).out
    assert "taken over by" in shown


def test_ctrl_c_finishes_the_step_and_says_what_is_left(build_desk):
    desk = build_desk()
    desk.create()
    other = f"{desk.name}-b"
    place = f"{desk.endpoint.urls[0]}/connectors/{other}"
    try:
        desk.must("connectors", "create", "-f", desk.write(desk.config(), "other.json"), "--name", other, "--yes")
        plan = str(desk.folder / "pause.plan")
        desk.must("connectors", "pause", desk.name, other, "--out", plan)
        # Connectors are changed at the same time; with a canary the first one goes alone.
        child = desk.start("apply", plan, "--canary", "1", "--yes", SEAMARK_FAILPOINT="after-outcome:0:stop")
        wait_until(lambda: Path(f"/proc/{child.pid}/stat").read_text().split()[2] == "T", "the first step to end")
        child.send_signal(signal.SIGINT)
        child.send_signal(signal.SIGCONT)
        out, err = child.communicate(timeout=COMMAND_SECONDS)
        assert child.returncode == 130, out + err
        assert "partly done" in out
        assert f"not started: pause connector/connect/{other}" in err
        desk.await_state("PAUSED")
        call_until(
            f"{place}/status", lambda status, answer: status == 200 and answer["connector"]["state"] == "RUNNING"
        )
        undo(desk)
        desk.await_state("RUNNING")
    finally:
        wait_until(lambda: call(place, method="DELETE")[0] in {204, 404}, "the other connector to be gone")


def test_an_older_connect_is_changed_as_far_as_it_can(build_desk):
    desk = build_desk(cluster="connect-3-5-2")
    file = desk.write({"name": desk.name, "config": desk.config()})
    refused = desk.run("connectors", "create", "-f", file, "--initial-state", "stopped", "--yes")
    assert refused.code == 5
    assert "needs Connect 3.7" in refused.err
    assert desk.look() is None
    before = desk.create()
    desk.must("connectors", "stop", desk.name, "--yes")
    desk.await_look((before[0], "STOPPED"))
    warned = desk.must("connectors", "delete", desk.name, "--dry-run")
    assert "can't recreate it as STOPPED" in warned.out
    undo(desk)
    desk.await_look(before)


def test_the_example_leaves_nothing_behind(build_desk):
    desk = build_desk()
    spec = json.loads((ROOT / "examples" / "file-source.json").read_text())
    spec["name"] = desk.name
    spec["config"] |= {"file": str(desk.input), "topic": desk.name}
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, str(ROOT / "examples" / "connector_life.py"), desk.write(spec), "dev"],
            env=desk.environ,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        # It looks once, and a neighbour's rebalance may hide the state right then. It leaves nothing behind: once more.
        if "state: UNASSIGNED" not in done.stdout:
            break
    assert "state: PAUSED" in done.stdout
    assert done.stdout.count(" done") == 4
    desk.await_look(None)
