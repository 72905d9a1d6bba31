"""A program beside the bench: it starts, says that it is ready, and does its work at a word."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.harness.definition import BenchError
from bench.harness.record import ROOT

READY = "ready"
_END_SECONDS = 30


class Child:
    """A module of ours, run as a program. It gets one JSON line, answers `ready` with what it has to say, and waits."""

    def __init__(self, module: str, order: Mapping[str, Any], *, environ: Mapping[str, str] | None = None) -> None:
        self._module = module
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env=environ,
            text=True,
        )
        try:
            self._send(json.dumps(order))
            self.said: Any = self._receive()[READY]
        except BaseException:
            self.end()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def go(self) -> Any:
        """Let it do its work, wait for the answer and for its end."""
        self._send("go")
        answer = self._receive()
        self.end()
        return answer

    def end(self) -> None:
        """Let it end, which it does when nobody can say anything to it any more."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_END_SECONDS)

    def _send(self, line: str) -> None:
        if self._process.stdin is None:
            raise AssertionError
        # One that is gone already is told apart when its answer is read.
        with suppress(BrokenPipeError):
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()

    def _receive(self) -> Any:
        if self._process.stdout is None:
            raise AssertionError
        line = self._process.stdout.readline()
        if not line:
            raise BenchError(f"{self._module} ended with {self._process.wait(_END_SECONDS)} before it answered")
        return json.loads(line)


def receive_order() -> Any:
    """In the child: what it shall do."""
    return json.loads(sys.stdin.readline())


def say_ready(said: Any = None) -> None:
    """In the child: say that it is ready, and wait for the word to go on. An end of the input is an end."""
    say({READY: said})
    if not sys.stdin.readline():
        raise SystemExit(0)


def say(answer: Any) -> None:
    """In the child: one line to the parent."""
    print(json.dumps(answer), flush=True)


def read_peak_bytes() -> int:
    """The most memory that this process ever had. `ru_maxrss` would count that of the parent before exec too."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise BenchError("this system does not tell a process its memory")
