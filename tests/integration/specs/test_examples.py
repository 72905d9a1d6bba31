"""The founding examples on real servers: from files to objects in the bucket, by one apply."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from seamark.devstack.process import wait_until
from seamark.devstack.seed import run_sql
from seamark.devstack.stack import write_stack
from tests.integration.rest import call_until

# The first test waits for the one apply, and then for every row.
pytestmark = pytest.mark.timeout(600)
ROOT = Path(__file__).parents[3]
GAME = ROOT / "examples" / "game"
CODES = (
    "item",
    "quest",
    "npc",
    "skill",
    "zone",
    "class",
    "rank",
    "shop",
    "drop_rate",
    "achievement",
    "season",
    "server",
)
LOGS = ("login", "logout", "chat", "buy", "trade", "raid")

BAD = {
    "transforms": "pick",
    "transforms.pick.type": "org.apache.kafka.connect.transforms.ExtractField$Value",
    "transforms.pick.field": "nobody",
}


class Operator:
    """Runs seamark in a context of its own, with the example's files in a folder of its own."""

    def __init__(self, stack, folder):
        self.stack = stack
        self.folder = folder
        self.endpoint = stack.connect["connect"]
        self.config = folder / "config"
        shutil.copytree(GAME / "config", self.config, ignore=shutil.ignore_patterns("__pycache__"))
        context = {
            "current": "dev",
            "contexts": {
                "dev": {
                    "journal": "file",
                    "journal_folder": str(folder / "journal"),
                    "in_flight_timeout": "3s",
                    "policy": {"files": ["/**"], "provider_paths": ["default", f"{stack.folder}/secrets/**"]},
                    "kafka": {"bootstrap.servers": stack.kafka.bootstrap_servers},
                    "connect": {
                        "connect": {"urls": list(self.endpoint.urls), "worker_config": self.endpoint.worker_config}
                    },
                }
            },
        }
        (folder / "seamark.yaml").write_text(json.dumps(context))
        write_stack(stack, folder / "stack.json")
        self.env = {key: value for key, value in os.environ.items() if not key.startswith("SEAMARK_")} | {
            "SEAMARK_CONFIG": str(folder / "seamark.yaml"),
            "SEAMARK_DEVSTACK": str(folder / "stack.json"),
            "XDG_STATE_HOME": str(folder / "state"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }

    def environment(self):
        """What the example's script says of the stack; it makes the tables too."""
        said = subprocess.run(
            ["bash", str(GAME / "environment.sh")], env=self.env, capture_output=True, text=True, check=True
        ).stdout
        self.env |= dict(re.findall(r"^export (\w+)='?([^'\n]*)'?$", said, re.MULTILINE))
        assert "GAME_DB_URL" in self.env

    def run(self, *arguments, timeout=300):
        done = subprocess.run(
            [sys.executable, "-m", "seamark.cli", *arguments],
            env=self.env,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def apply(self, *more):
        return self.run("apply", "-f", str(self.config), "--allow-python", "--yes", *more)

    def get(self, path, is_so=lambda _: True):
        """What the worker answers, once it is so. In a rebalance it refuses, or shows UNASSIGNED."""
        return call_until(self.endpoint.urls[0] + path, lambda status, answer: status == 200 and is_so(answer))

    def landed(self, kind, topic):
        """The keys of the rows of a topic that are in the bucket, each once: a source that moves to another worker
        before its position is written reads a row again."""
        folder = Path(self.stack.s3.data) / "game" / kind / topic
        files = [file for file in folder.rglob("*") if file.is_file()]
        rows = [json.loads(line)["value"] for file in files for line in file.read_text().splitlines()]
        return {row["seq" if kind == "log" else "id"] for row in rows}

    def rows(self, table):
        return int(run_sql(self.stack.postgres, f'SELECT count(*) FROM "{table}"'))

    def is_landed(self, kind, table):
        return len(self.landed(kind, f"{kind}-{table}")) == self.rows(table)


@pytest.fixture(scope="module")
def operator(stack, tmp_path_factory):
    found = Operator(stack, tmp_path_factory.mktemp("game"))
    found.environment()
    yield found
    found.run("destroy", "-f", str(found.config), "--allow-python", "--yes")


@pytest.fixture(scope="module")
def applied(operator):
    """The one apply that makes everything."""
    return operator.apply()


def test_one_apply_leads_from_files_to_objects(operator, applied):
    assert applied.returncode == 0, applied.stdout + applied.stderr
    assert "20 to create" in applied.stdout
    sources = [f"code-{table}" for table in CODES] + [f"log-{table}" for table in LOGS]
    for name in (*sources, "lake-code", "lake-log"):
        operator.get(
            f"/connectors/{name}/status", lambda told: [task["state"] for task in told["tasks"]] == ["RUNNING"]
        )

    def all_there():
        tables = [("code", table) for table in CODES] + [("log", table) for table in LOGS]
        return all(operator.is_landed(kind, table) for kind, table in tables)

    wait_until(all_there, "every row of 18 tables was in the bucket", seconds=240, every_seconds=1)
    assert sum(operator.rows(table) for table in (*CODES, *LOGS)) > 1300


def test_a_second_apply_changes_and_restarts_nothing(operator, applied):
    assert applied.returncode == 0
    before = read_starts(operator)
    journal = operator.run("journal", "list", "-o", "json").stdout

    again = operator.apply()

    assert again.returncode == 0, again.stderr
    assert "20 unchanged" in again.stdout
    assert operator.run("journal", "list", "-o", "json").stdout == journal
    assert read_starts(operator) == before
    plan = operator.run("plan", "-f", str(operator.config), "--allow-python", "--detailed-exitcode")
    assert plan.returncode == 0, plan.stdout


def test_a_config_that_fails_its_tasks_is_taken_back_within_the_deadline(operator, applied):
    assert applied.returncode == 0
    file = operator.config / "codetables.py"
    good = file.read_text()
    before = operator.get("/connectors/code-item/config")
    # No validation can know that the rows have no such field; the task finds out with the first of them.
    spot = '"topic.prefix": f"code-{table}",'
    assert spot in good
    file.write_text(good.replace(spot, f'{spot} **({BAD} if table == "item" else {{}}),'))
    began_at = time.monotonic()
    try:
        done = operator.apply("--wait", "45s")
    finally:
        file.write_text(good)

    assert done.returncode == 3, (done.returncode, done.stdout, done.stderr)
    # The deadline, and what a busy machine needs to plan, to take it back and to see it run again.
    assert time.monotonic() - began_at < 180
    assert "code-item" in done.stderr
    assert "nobody" in done.stderr
    operator.get("/connectors/code-item/config", lambda config: config == before)
    operator.get("/connectors/code-item/status", is_running)


def is_running(status):
    return [status["connector"]["state"], *(task["state"] for task in status["tasks"])] == ["RUNNING", "RUNNING"]


def test_what_a_file_no_longer_names_is_deleted_and_comes_back(operator, applied):
    assert applied.returncode == 0
    wait_until(lambda: operator.is_landed("log", "chat"), "every row of chat was in the bucket", seconds=240)
    file = operator.config / "logtables.yaml"
    good = file.read_text()
    try:
        file.write_text(good.replace("      - {table: chat,   poll: 2000}\n", ""))
        plan = operator.run("plan", "-f", str(operator.config), "--allow-python", "--detailed-exitcode")
        assert plan.returncode == 2
        assert "1 to delete" in plan.stdout
        assert operator.apply().returncode == 0
        operator.get("/connectors", lambda names: "log-chat" not in names)
    finally:
        file.write_text(good)
    before = count_rows(operator, "log-chat")

    back = operator.apply()

    assert back.returncode == 0, back.stderr
    operator.get("/connectors", lambda names: "log-chat" in names)
    run_sql(operator.stack.postgres, "INSERT INTO chat (player, what) VALUES ('p', 'again')")
    wait_until(lambda: operator.is_landed("log", "chat"), "the new row was in the bucket", seconds=240)
    # It goes on where it stopped: one row more, not all of them again. That one Connect may deliver twice.
    more = count_rows(operator, "log-chat") - before
    assert set(more) == {max(more)}
    assert max(more) > max(before)


def count_rows(operator, topic):
    """How often each row is in the bucket, by its number."""
    folder = Path(operator.stack.s3.data) / "game" / "log" / topic
    lines = [line for file in folder.rglob("*") if file.is_file() for line in file.read_text().splitlines()]
    return Counter(json.loads(line)["value"]["seq"] for line in lines)


def read_starts(operator):
    """When each task of the fleet was last started, from the workers' logs: nothing else tells a restart."""
    logs = [Path(server.log) for server in operator.stack.servers if server.name.startswith("connect")]
    lines = [line for log in logs for line in log.read_text(errors="replace").splitlines()]
    return [line for line in lines if "Creating task " in line or "Creating connector " in line]
