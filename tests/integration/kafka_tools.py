"""Kafka's own command line programs, from the jars of the stack, as child processes.

`run_tool` starts a JVM for one call, a second or more. `open_tools` keeps one JVM for many calls.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from seamark.devstack.java import find_java

RUNNER = Path(__file__).parent / "java" / "RunTools.java"
# What the programs log is asked for nowhere.
SILENT = f"-Dlog4j2.configurationFile={Path(__file__).parents[1] / 'oracle' / 'offsets' / 'java' / 'log4j2.properties'}"
OPTIONS = ("-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8", SILENT)

PROGRAMS = {
    "ConsumerGroupCommand": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "ShareGroupCommand": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "ConsoleConsumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "ConsoleShareConsumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "TopicCommand": "org.apache.kafka.tools.TopicCommand",
    "DeleteRecordsCommand": "org.apache.kafka.tools.DeleteRecordsCommand",
    "GroupsCommand": "org.apache.kafka.tools.GroupsCommand",
}
CALL_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Said:
    """What a program printed. Some of them end with 0 whatever happened: look at both texts."""

    code: int
    out: str
    err: str


class Tools:
    """One JVM that runs the programs one after the other. For one thread."""

    def __init__(self, stack, process):
        self._server = stack.kafka.bootstrap_servers
        self._process = process

    def run(self, name, *arguments) -> Said:
        """Run one of PROGRAMS against the stack's brokers, whatever comes of it."""
        call = {
            "program": PROGRAMS[name],
            "arguments": ["--bootstrap-server", self._server, *map(str, arguments)],
        }
        self._process.stdin.write(json.dumps(call) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the JVM of {name} has ended with {self._process.poll()}"
        return Said(**json.loads(answer))

    def __call__(self, name, *arguments) -> str:
        """Run one of PROGRAMS, and give what it printed. It must have ended well."""
        said = self.run(name, *arguments)
        assert said.code == 0, f"{name} ended with {said.code}: {said.out} {said.err}"
        assert "Error:" not in said.out, f"{name}: {said.out} {said.err}"
        return said.out


@contextmanager
def open_tools(stack) -> Iterator[Tools]:
    """A JVM for many calls: `tools("TopicCommand", "--describe")`."""
    command = [find_java(), *OPTIONS, "-cp", f"{stack.kafka.libs}/*", str(RUNNER)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")
    try:
        yield Tools(stack, process)
    finally:
        process.stdin.close()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=30)
        process.stdout.close()


def run_tool(stack, name, *arguments, timeout_seconds=CALL_SECONDS) -> str:
    """Run one program in a JVM of its own, and give what it printed. It must have ended well."""
    done = subprocess.run(
        build_command(stack, name, *arguments), capture_output=True, text=True, timeout=timeout_seconds, check=False
    )
    assert done.returncode == 0, f"{name} ended with {done.returncode}: {done.stdout} {done.stderr}"
    assert "Error:" not in done.stdout, f"{name}: {done.stdout} {done.stderr}"
    return done.stdout


def build_command(stack, name, *arguments) -> list[str]:
    """The command line of a program, for those that run until they are ended."""
    server = ["--bootstrap-server", stack.kafka.bootstrap_servers]
    return [find_java(), *OPTIONS, "-cp", f"{stack.kafka.libs}/*", PROGRAMS[name], *server, *map(str, arguments)]
