"""kill -9 at every point of every change that waits until a connector runs, or sets its declared state.

Then `journal resume`, which ends as the change would have ended, and `journal undo`: everything is as before. A task of
a file sink fails where the folder of its file is missing. With SEAMARK_KILLS=3 each point is taken three times.
"""

from __future__ import annotations

import json
import shutil
import urllib.error
from dataclasses import dataclass

import pytest

from seamark.devstack.process import wait_until
from tests.fault.rig import SETTLE_SECONDS, TIMES, Rig, list_points

pytestmark = pytest.mark.timeout(900 * TIMES)

SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
RUNNING, FAILED, PAUSED, STOPPED = ("RUNNING", "RUNNING"), ("RUNNING", "FAILED"), ("PAUSED", "PAUSED"), ("STOPPED", "")
# In parts, so that several processes share them.
PARTS = 2


@dataclass(frozen=True)
class Case:
    """A command, its steps, and the folder and state of the connector before it and when its change is finished.

    None stands for no connector. If `is_broken`, the folder `out` is missing; if `was_broken`, it was missing before.
    """

    words: str
    steps: str
    before: tuple[str, tuple[str, str]] | None
    after: tuple[str, tuple[str, str]] | None
    code: int = 0
    is_broken: bool = False
    was_broken: bool = False
    is_undone: bool = True


CASES = {
    "create": Case("connectors create -f {file}", "aw", None, ("out", RUNNING)),
    "create-fails": Case("connectors create -f {file}", "awa", None, ("out", STOPPED), 3, is_broken=True),
    "create-deleted": Case("connectors create -f {file} --delete-on-failure", "awa", None, None, 3, is_broken=True),
    "update": Case("connectors update {name} --set file={other}", "aw", ("out", RUNNING), ("other", RUNNING)),
    "update-fails": Case("connectors update {name} --set file={lost}", "awaw", ("out", RUNNING), ("out", RUNNING), 3),
    "resume": Case("connectors resume {name}", "aw", ("out", PAUSED), ("out", RUNNING)),
    "resume-fails": Case("connectors resume {name}", "awa", ("out", STOPPED), ("out", STOPPED), 3, is_broken=True),
    "restart": Case(
        "connectors restart {name}", "aw", ("out", FAILED), ("out", RUNNING), was_broken=True, is_undone=False
    ),
    "restart-all": Case("connectors restart {name} --all", "aw", ("out", RUNNING), ("out", RUNNING)),
    "restart-task": Case("connectors restart {name} --task 0", "aw", ("out", RUNNING), ("out", RUNNING)),
    "restart-fails": Case(
        "connectors restart {name} --all", "aw", ("out", RUNNING), ("out", FAILED), 3, is_broken=True, is_undone=False
    ),
    "restart-rolling": Case("connectors restart {name} {name}-2 --all", "awaw", ("out", RUNNING), ("out", RUNNING)),
    "state": Case("apply -f {spec}", "aw", ("out", PAUSED), ("out", RUNNING)),
    "state-fails": Case("apply -f {spec}", "awa", ("out", STOPPED), ("out", STOPPED), 3, is_broken=True),
}


class Sink:
    """A file sink, with the files that declare it."""

    def __init__(self, rig, case):
        self.rig, self.case = rig, case
        self.folder = rig.folder / "out"
        (rig.folder / "other").mkdir()
        self.config = self.build_config(rig.name)
        file = rig.folder / "connector.json"
        file.write_text(json.dumps({"name": rig.name, "config": self.config}))
        spec = rig.folder / "spec.yaml"
        entry = {"name": rig.name, "cluster": rig.cluster, "manage_state": True, "config": self.config}
        spec.write_text(json.dumps({"connectors": [entry]}))
        places = {"name": rig.owner, "file": file, "spec": spec}
        places |= {folder: rig.folder / folder / f"{rig.name}.txt" for folder in ("other", "lost")}
        self.words = [*case.words.format(**places).split(), "--yes"]
        if case.words.startswith("connectors create"):
            self.words += ["--cluster", rig.cluster]
        self.all_names = [rig.name, *([f"{rig.name}-2"] if "-2" in case.words else [])]

    def build_config(self, name):
        return {
            "connector.class": SINK,
            "tasks.max": "1",
            "file": str(self.folder / f"{name}.txt"),
            "topics": self.rig.name,
        }

    def prepare(self):
        """Bring about what the command finds, past seamark."""
        self.folder.mkdir(exist_ok=True)
        wanted, name = self.case.before, self.rig.name
        if wanted is not None:
            for one in self.all_names:
                self.start(one)
            if wanted[1] in (PAUSED, STOPPED):
                self.ask("PUT", f"{name}/{'pause' if wanted[1] == PAUSED else 'stop'}")
            else:
                self.await_found(("out", RUNNING))
        if self.case.was_broken or self.case.is_broken:
            shutil.rmtree(self.folder)
        if self.case.was_broken:
            self.ask("POST", f"{name}/restart?includeTasks=true")
            self.await_found(wanted)
            self.folder.mkdir()
        self.await_found(wanted)

    def start(self, name):
        """Have it exist, without a failed task; declared, if the command applies a spec."""
        found = self.read(name)
        if found is None and "apply" in self.case.words:
            code, _, err = self.rig.execute("apply", "-f", str(self.rig.folder / "spec.yaml"), "--yes")
            assert code == 0, err
        elif found is None:
            self.rig.put(name, self.build_config(name))
            # One that is paused before it has a task gets none.
            self.await_found(("out", RUNNING), [name])
        elif found[1] == FAILED:
            self.ask("POST", f"{name}/restart?includeTasks=true&onlyFailed=true")

    def ask(self, method, path):
        """A request, again while a rebalance refuses it."""

        def is_accepted():
            try:
                self.rig.call(method, f"/connectors/{path}")
            except urllib.error.HTTPError as error:
                if error.code not in (404, 409, 500):
                    raise
                return False
            return True

        wait_until(is_accepted, f"Connect accepted {method} {path}", seconds=SETTLE_SECONDS, every_seconds=0.5)

    def read(self, name):
        """The folder of its file, its state and that of its task; None if there is none."""
        if name not in self.rig.read("/connectors"):
            return None
        # Its status comes later than it does, and goes later.
        config, status = self.rig.read(f"/connectors/{name}/config"), self.rig.read(f"/connectors/{name}/status")
        file = self.rig.folder / config["file"]
        return file.parent.name, (status["connector"]["state"], ",".join(task["state"] for task in status["tasks"]))

    def await_found(self, wanted, names=()):
        """Until it is so; a neighbour's rebalance shows it unassigned for a while."""
        found = []

        def is_found():
            found[:] = [self.read(name) for name in names or self.all_names]
            return found == [wanted] * len(found)

        try:
            wait_until(is_found, f"{self.rig.name} is {wanted}", seconds=SETTLE_SECONDS, every_seconds=0.3)
        except Exception as error:
            raise AssertionError(f"{self.rig.name}: {found}, not {wanted}") from error


@pytest.fixture
def bare_rig(stack, tmp_path, journal_topics):
    """The commands without a connector."""
    rig = Rig(stack, tmp_path)
    yield rig
    rig.remove(f"{rig.name}-2")
    rig.delete()


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", CASES)
def test_killed_change_is_finished_by_resume_and_undone(bare_rig, name, part):
    case, killed = CASES[name], 0
    sink = Sink(bare_rig, case)
    points = list_points(case.steps)[part::PARTS]
    for point in points * TIMES:
        sink.prepare()
        change = bare_rig.run_killed(point, *sink.words, ending=case.code)
        killed += 1
        sink.await_found(case.after)
        bare_rig.undo(change)
        sink.await_found(case.before if case.is_undone else case.after)
    assert killed == TIMES * len(points) >= 4 * TIMES
