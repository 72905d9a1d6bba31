"""A shell session that runs the commands of a page one after another."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

# Reads the name of a file, runs it in this shell, reports its exit code. Its standard input is a terminal, so that
# commands ask as they ask an operator; its output is a file, so that lines have no control characters.
_LOOP = 'while IFS= read -r page_file <&"$0"; do . "$page_file" <"$1" >"$page_file.out" 2>&1; echo $? >&"$2"; done'
# What seamark asks before a change: `Type yes to continue, or use --yes: `.
_PROMPT = re.compile(r"Type (\S+) to [^\n]*: \Z")
_ANSWERED = re.compile(r"(Type (\S+) to [^\n]*?, or use --\w+: )")
# A command that runs Spark several times, as a cutover does, takes minutes on a busy machine.
TIMEOUT_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Result:
    """How a command ended, and what it printed on both of its outputs."""

    code: int
    text: str
    was_asked: bool = False


class SessionError(Exception):
    """The shell ended, or a command did not end in time."""


class Session:
    """One bash: variables, folders and background jobs of a block are there in the next one."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self.folder = folder
        self._scripts = folder / ".scripts"
        self._scripts.mkdir()
        self._count = 0
        self._terminal, terminal = pty.openpty()
        commands, self._commands = os.pipe()
        self._codes, codes = os.pipe()
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--norc", "-c", _LOOP, str(commands), os.ttyname(terminal), str(codes)],
            cwd=folder,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(commands, codes),
            # Without a controlling terminal, a question for a password would reach the terminal of the caller.
            start_new_session=True,
        )
        for descriptor in (commands, codes):
            os.close(descriptor)
        # Open until the end: else the terminal is gone while no command uses it.
        self._slave = terminal

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for descriptor in (self._commands, self._codes, self._terminal, self._slave):
            os.close(descriptor)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)

    def run(self, text: str, *, timeout: float = TIMEOUT_SECONDS) -> Result:
        """Run shell text, answer its questions as it asks, and return what it printed.

        Raises:
            SessionError: The shell ended, or the command did not end in time.
        """
        self._count += 1
        script = self._scripts / f"{self._count}.sh"
        script.write_text(text + "\n", encoding="utf-8")
        os.write(self._commands, f"{script}\n".encode())
        output, answered, deadline = Path(f"{script}.out"), 0, time.monotonic() + timeout
        while not select.select([self._codes], [], [], 0.1)[0]:
            printed = self._read(output)
            asked = _PROMPT.search(printed)
            if asked and asked.end() > answered:
                answered = asked.end()
                os.write(self._terminal, f"{asked[1]}\n".encode())
            if self._process.poll() is not None:
                raise SessionError(f"the shell ended in: {text}\n{printed}")
            if time.monotonic() > deadline:
                self._process.kill()
                raise SessionError(f"not finished after {timeout:.0f} s: {text}\n{printed}")
        code = b""
        while not code.endswith(b"\n"):
            part = os.read(self._codes, 64)
            if not part:
                raise SessionError(f"the shell ended in: {text}\n{self._read(output)}")
            code += part
        return Result(int(code), _ANSWERED.sub(r"\1\2\n", self._read(output)), answered > 0)

    def _read(self, output: Path) -> str:
        return output.read_text(encoding="utf-8", errors="replace") if output.exists() else ""


def split_shell(text: str) -> list[str]:
    """Split a block without prompts into its commands: a command ends with the line at which the shell can run it."""
    found: list[str] = []
    lines: list[str] = []
    for line in text.splitlines():
        lines.append(line)
        if not any(one.strip() and not one.lstrip().startswith("#") for one in lines):
            lines = []
            continue
        command = "\n".join(lines)
        if line.endswith("\\"):
            continue
        # An open quote is an error, an open here document a warning.
        checked = subprocess.run(["bash", "-n", "-c", command], capture_output=True, text=True, check=False)
        if checked.returncode == 0 and not checked.stderr:
            found.append(command)
            lines = []
    if lines:
        raise SessionError("not a complete shell command: " + "\n".join(lines))
    return found
