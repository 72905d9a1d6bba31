"""A fleet is applied while a worker dies: everything runs in the end, or was named."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
import uuid
from pathlib import Path

import pytest

import seamark
from seamark.changes.outcome import Outcome
from seamark.changes.setup import make_setup
from seamark.changes.timing import retry_while
from seamark.context import open_context
from seamark.devstack import StackSpec, start_stack
from seamark.devstack.client import ask

SIZE = 100
# The worker dies in the middle of it: many connectors are made by then, some are waited for, some are not begun.
KILL_AFTER = 25
# The survivor takes over what the dead one ran; on two cores that others use too, a hundred tasks need their time.
SETTLE_SECONDS = 240
# The first waits for its servers too.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def own_stack():
    """Servers that may be killed."""
    with start_stack(StackSpec(brokers=1, workers=2), name="fleet-apply") as stack:
        yield stack


class Yard:
    """A folder with the files of a hundred connectors, and the context in which they are applied."""

    def __init__(self, stack, folder):
        self.run = f"killed-{uuid.uuid4().hex[:6]}"
        self.urls = stack.connect["connect"].urls
        self.names = {f"{self.run}-{number:03d}" for number in range(SIZE)}
        cluster = {"urls": list(self.urls), "worker_config": stack.connect["connect"].worker_config}
        context = {
            "journal_topic": f"journal-{self.run}",
            "in_flight_timeout": "5s",
            "kafka": {"bootstrap.servers": stack.kafka.bootstrap_servers},
            "connect": {"connect": cluster},
            "policy": {"files": [f"{folder}/**"]},
        }
        (folder / "seamark.yaml").write_text(json.dumps({"current": "dev", "contexts": {"dev": context}}))
        self.environ = {"SEAMARK_CONFIG": str(folder / "seamark.yaml"), "XDG_STATE_HOME": str(folder / "state")}
        self.spec = folder / "config"
        self.spec.mkdir()
        (self.spec / "_defaults.yaml").write_text(f"spec: {self.run}\n")
        rows = "\n".join(f"      - {{name: {name}}}" for name in sorted(self.names))
        (self.spec / "fleet.yaml").write_text(
            "each:\n  - name: ${{ each.name }}\n    config:\n      connector.class: FileStreamSource\n"
            f"      tasks.max: 1\n      topic: ${{{{ each.name }}}}\n      file: {folder}/in.txt\n    for:\n{rows}\n"
        )
        make_setup(open_context(environ=self.environ))

    def open(self, **more):
        return seamark.Fleet(open_context(environ=self.environ | more))

    def plan(self, fleet):
        """A plan. A worker that comes back causes a rebalance, in which nobody can tell for a while."""
        return retry_while(lambda: fleet.plan(self.spec), fleet._world.clock, seconds=SETTLE_SECONDS)

    def read_running(self):
        """The connectors of this run that run with their task, told by any worker that is alive."""
        for url in self.urls:
            try:
                with urllib.request.urlopen(f"{url}/connectors?expand=status", timeout=10) as answer:
                    seen = json.load(answer)
            except OSError:
                continue
            found = {name: entry["status"] for name, entry in seen.items() if name in self.names}
            return {name for name, status in found.items() if _runs(status)}
        return set()

    def await_running(self, names):
        deadline = time.monotonic() + SETTLE_SECONDS
        while names - self.read_running():
            assert time.monotonic() < deadline, f"not running: {sorted(names - self.read_running())}"
            time.sleep(0.5)


def _runs(status):
    tasks = [task["state"] for task in status["tasks"]]
    return status["connector"]["state"] == "RUNNING" and tasks == ["RUNNING"]


class Killer:
    """Follows a change, and kills a worker when some of its steps have ended."""

    def __init__(self, stack, worker):
        self.killed = threading.Event()
        self.words = []
        self._kill = threading.Thread(target=self._do, args=(Path(stack.folder), worker))
        self._left = KILL_AFTER

    def _do(self, folder, worker):
        ask(folder, "kill", worker)
        self.killed.set()

    def opened(self, change, *, steps):
        assert steps == 2 * SIZE

    def begun(self, number, words):
        self.words.append(words)

    def waiting(self, words):
        self.words.append(words)

    def ended(self, result):
        self._left -= 1
        if self._left == 0:
            self._kill.start()

    def join(self):
        self._kill.join(30)
        assert self.killed.is_set()


def _names(subjects):
    return {subject.rpartition("/")[2] for subject in subjects}


# The first worker is the one that is talked to, and one of the two is the leader.
@pytest.mark.parametrize("worker", ["worker-1", "worker-2"])
def test_worker_killed_during_an_apply_leaves_nothing_unnamed(own_stack, tmp_path, worker):
    yard = Yard(own_stack, tmp_path)
    killer = Killer(own_stack, worker)
    with yard.open() as fleet:
        planned = fleet.plan(yard.spec)
        assert len(planned.effects) == SIZE
        result = fleet.apply(planned, killer)
        killer.join()
        named = _names(result.failures)
        unhappy = {step.subject for step in result.steps if step.outcome is not Outcome.DONE}
        assert _names(unhappy) <= named
        # What was left stood in a lane that had failed before it.
        assert all(any(name in words for name in named) for words in result.left)
        assert not any("409" in str(error) for error in result.failures.values())
        yard.await_running(yard.names - named)

        ask(Path(own_stack.folder), "restart", worker)
        if result.ending is None:
            fleet.journal.resume(result.change)
    # The rebalances of a hundred may last longer than the 8 s for which a request is repeated with a short timeout.
    with yard.open(SEAMARK_CONTEXTS__DEV__IN_FLIGHT_TIMEOUT="90s") as fleet:
        again = yard.plan(fleet)
        assert _names(effect.subject for effect in again.effects) <= named
        mended = fleet.apply(again)
        assert mended.is_done, mended.failures
        yard.await_running(yard.names)
        assert yard.plan(fleet).is_empty
        gone = fleet.apply(fleet.destroy(yard.spec))
        assert gone.is_done, gone.failures
    print(f"{worker} killed: {len(named)} of {SIZE} named, {len(again.effects)} applied again")
