"""Running the tools that fetch and build: Maven and Go. Their output is shown only when they fail."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from seamark.errors import DevstackError

# An empty Maven cache took 100 s for the largest set and Go 130 s of building on 2 cores;
# ten minutes is a dead network, not a slow one.
TOOL_DEADLINE_SECONDS = 600


def run_tool(command: Sequence[str], purpose: str, *, env: Mapping[str, str] | None = None) -> str:
    """Run a fetching tool to its end and give its output."""
    if shutil.which(command[0]) is None:
        raise DevstackError(
            f"{command[0]} is needed to {purpose} and is not on this machine",
            hint=f"install {command[0]}, then try again",
        )
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=TOOL_DEADLINE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise DevstackError(f"could not {purpose}: {command[0]} did not end in {TOOL_DEADLINE_SECONDS} s") from None
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-15:])
        raise DevstackError(f"could not {purpose}: {command[0]} ended with {done.returncode}", cause=tail)
    return done.stdout
