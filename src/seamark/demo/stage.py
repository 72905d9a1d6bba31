"""The environment of the acts: the running servers, a folder, and command lines that are really run."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seamark.demo.servers import CONTEXT_FILE, build_context
from seamark.errors import DevstackError

if TYPE_CHECKING:
    from seamark.demo.chapter import Moment
    from seamark.devstack import Stack

# The longest delay that users do not notice.
_LOOK_SECONDS = 0.25
# The longest commands of the demo: a restart of a worker may take 120 s until devstack gives up, and a cutover starts
# Spark while the servers keep two cores busy.
_COMMAND_SECONDS = 300.0
# The variables of the caller that the demo's own commands get: where the jars are.
_KEPT = frozenset({"SEAMARK_CACHE", "SEAMARK_PLUGINS"})
_PROGRAMS = {"seamark": (sys.executable, "-m", "seamark.cli"), "python": (sys.executable,)}
BUCKET = "lake"


@dataclass(slots=True)
class Stage:
    """What the acts of the demo use.

    `folder` is the current folder of every command; it contains nothing of the user's. `done` has the names of
    completed set-ups, so that no chapter repeats one.
    """

    stack: Stack
    folder: Path
    file: Path
    color: str = "auto"
    jars: str = ""
    done: set[str] = field(default_factory=set)
    sleep: Callable[[float], None] = time.sleep

    @property
    def exports(self) -> dict[str, str]:
        """Return the variables that point `seamark` to this folder and not to the user's own contexts and state."""
        return {
            "SEAMARK_CONFIG": str(self.folder / CONTEXT_FILE),
            "SEAMARK_DEVSTACK": str(self.file),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "DEMO": str(self.folder),
            "DEMO_FILES": f"{self.stack.folder}/secrets",
            **({"DEMO_S3": self.stack.s3.endpoint} if self.stack.s3 else {}),
            **({"SEAMARK_SPARK_MASTER": "local[2]", "SEAMARK_SPARK_JARS": self.jars} if self.jars else {}),
        }

    def use_spark(self) -> None:
        """Allow commands to run Spark on this machine; missing jars are downloaded."""
        from seamark.devstack.downloads import spark_jars  # noqa: PLC0415

        self.jars = str(spark_jars())

    def write_context(self) -> None:
        """Write the contexts file that every command uses."""
        (self.folder / CONTEXT_FILE).write_text(build_context(self.stack, self.folder))

    def run(self, command: str) -> int:
        """Run a command line with visible output and return its exit code."""
        return subprocess.run(
            _find_program(command),
            cwd=self.folder,
            env=self._build_environ(),
            stdin=subprocess.DEVNULL,
            timeout=_COMMAND_SECONDS,
            check=False,
        ).returncode

    def read(self, command: str) -> str:
        """Run a command line without visible output and return its output. Raises if it failed."""
        done = subprocess.run(
            _find_program(command),
            cwd=self.folder,
            env=self._build_environ(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_COMMAND_SECONDS,
            check=False,
        )
        if done.returncode:
            raise DevstackError(
                f"the demo can't continue: {command} ended with exit code {done.returncode}",
                cause=done.stderr.strip()[-2000:],
            )
        return done.stdout

    def fill(self, command: str) -> str:
        """Return the command as it is typed, with its placeholders filled."""
        if "{change}" in command:
            command = command.replace("{change}", self.read("seamark journal list --limit 1 -o name").strip())
        if "{bucket}" in command:
            command = command.replace("{bucket}", str(self.bucket))
        return command

    @property
    def bucket(self) -> Path:
        """Return the folder of the bucket."""
        if self.stack.s3 is None:
            raise DevstackError("this demo has no S3 server")
        return Path(self.stack.s3.data) / BUCKET

    def call(self, method: str, path: str, body: Mapping[str, str] | None = None) -> Any:
        """Make one bare REST call to the first worker, without seamark. Return None for an HTTP error (404, 409)."""
        request = urllib.request.Request(  # noqa: S310 - a worker of our own stack
            self.stack.connect["connect"].urls[0] + path,
            method=method,
            data=json.dumps(body).encode() if body is not None else None,
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=100) as answer:  # noqa: S310
                text = answer.read()
        except urllib.error.HTTPError:
            return None
        return json.loads(text) if text else {}

    def find_states(self, name: str) -> tuple[str, ...]:
        """Return the states of a connector and of its tasks, in this order; none if it does not exist."""
        status = self.call("GET", f"/connectors/{name}/status")
        if status is None:
            return ()
        return (status["connector"]["state"], *(task["state"] for task in status["tasks"]))

    def wait_for(self, moment: Moment) -> float:
        """Wait until the condition holds and return the seconds. Raises at its deadline."""
        begin = time.monotonic()
        while not moment.has_come(self):
            if time.monotonic() - begin > moment.deadline_seconds:
                raise DevstackError(
                    f"timed out after {moment.deadline_seconds:.0f} s of waiting until {moment.words}",
                    hint="try again; the machine may be overloaded",
                )
            self.sleep(_LOOK_SECONDS)
        return time.monotonic() - begin

    def _build_environ(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SEAMARK_") or name in _KEPT}
        return {**kept, **self._find_database(), **self.exports, "SEAMARK_COLOR": self.color}

    def _find_database(self) -> dict[str, str]:
        found = self.stack.postgres
        if found is None:
            return {}
        # Named as libpq reads them, so that the demo can show a bare psql.
        return {
            "PGHOST": found.host,
            "PGPORT": str(found.port),
            "PGUSER": found.user,
            "PGPASSWORD": found.password,
            "PGDATABASE": found.database,
        }


def _find_program(command: str) -> Sequence[str]:
    program, *arguments = shlex.split(command)
    return [*_PROGRAMS.get(program, (program,)), *arguments]
