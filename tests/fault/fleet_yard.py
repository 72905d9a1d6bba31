"""A folder with the files of a hundred connectors, applied to workers that may be killed."""

from __future__ import annotations

import json
import time
import urllib.request
import uuid

import seamark
from seamark.changes.setup import make_setup
from seamark.changes.timing import retry_while
from seamark.context import open_context

SIZE = 100
# The survivor takes over what the dead one ran; on two cores that others use too, a hundred tasks need their time.
SETTLE_SECONDS = 240


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
