"""Run a spec program in a child process: isolated, with a scrubbed environment, a deadline and bounded output."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from seamark.core.files import Place
from seamark.core.sensitive import is_sensitive, mask_text, mask_value
from seamark.errors import RefusedError, SpecError
from seamark.specs.isolation import set_dumpable
from seamark.specs.nodes import build_spec_error

# A program makes dictionaries from a list of tables: that takes milliseconds. Asking a database may take seconds.
DEADLINE_SECONDS = 30.0
# Ten thousand connectors of fifty keys have some 20 MB.
MAX_BYTES = 64 << 20
# What a program printed is shown where it fails; the end of it is what counts.
_MAX_PRINTED = 4000
# What a locale-aware library needs to start. No HOME: credentials lie there.
_PASSED = ("PATH", "LANG", "LC_ALL", "TZ")
_FLAGS = ("-I", "-B", "-X", "utf8")
# The child must run this very installation; `-I` finds whichever is installed for the interpreter.
_START = "import sys; sys.path.insert(0, sys.argv[2]); from seamark.specs.child import main; del sys.path[0]; main()"
_ROOT = Path(__file__).parents[2]


def run_program(
    path: Path,
    *,
    environ: Mapping[str, str],
    deadline_seconds: float = DEADLINE_SECONDS,
    max_bytes: int = MAX_BYTES,
) -> list[dict[str, Any]]:
    """The resources that a program gives, as it gave them. They are data, not yet checked."""
    withheld = [name for name, value in environ.items() if is_sensitive(name) or mask_value(name, value) != value]
    order = {
        "path": str(path.resolve()),
        "environ": {name: value for name, value in environ.items() if name not in withheld},
        "withheld": withheld,
    }
    run = _run(order, environ=environ, limits=_Limits(deadline_seconds, max_bytes))
    place = Place(str(path))
    if run.problem:
        raise build_spec_error(place, run.problem + _quote(run.printed), hint="look at the program; run it by hand")
    answer = _parse(run.sent)
    if answer is None:
        raise build_spec_error(
            place,
            f"the program ended with code {run.code} and gave nothing{_quote(run.printed)}",
            hint="run it by hand",
        )
    if "refused" in answer:
        raise RefusedError(
            f"{path} was not run: seamark can't keep secrets from it on this machine",
            cause=str(answer["refused"]),
            hint="allow unprivileged user namespaces, or run seamark without these variables: "
            + ", ".join(sorted(withheld)),
            context={"file": str(path)},
        )
    if "error" in answer:
        raise _build_failure(answer["error"], path, printed=run.printed)
    found: list[dict[str, Any]] = answer["resources"]
    return found


@dataclass(frozen=True, slots=True)
class _Limits:
    deadline_seconds: float
    max_bytes: int


@dataclass(frozen=True, slots=True)
class _Run:
    sent: bytes = b""
    printed: bytes = b""
    code: int = 0
    problem: str = ""


def _run(order: dict[str, Any], *, environ: Mapping[str, str], limits: _Limits) -> _Run:
    set_dumpable(False)
    reading, writing = os.pipe()
    try:
        # A file, not a pipe: a program that does not read can't make us wait.
        with tempfile.TemporaryFile() as orders:
            orders.write(json.dumps(order).encode())
            orders.seek(0)
            child = subprocess.Popen(
                [sys.executable, *_FLAGS, "-c", _START, str(writing), str(_ROOT)],
                stdin=orders,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=[writing],
                cwd=Path(order["path"]).parent,
                env={name: environ[name] for name in _PASSED if name in environ},
                start_new_session=True,
            )
        os.close(writing)
        writing = -1
        try:
            run = _listen(child, reading, limits)
        finally:
            _end(child)
        return replace(run, code=child.returncode)
    finally:
        os.close(reading)
        if writing >= 0:
            os.close(writing)


def _listen(child: subprocess.Popen[bytes], reading: int, limits: _Limits) -> _Run:
    """Take what comes by both ways until the pipe of the answer is closed."""
    end = time.monotonic() + limits.deadline_seconds
    sent, printed = bytearray(), bytearray()
    late = f"the program did not end within {limits.deadline_seconds:g} s"
    output = child.stdout.fileno() if child.stdout else -1
    with selectors.DefaultSelector() as selector:
        selector.register(reading, selectors.EVENT_READ)
        selector.register(output, selectors.EVENT_READ)
        while reading in {key.fd for key in selector.get_map().values()}:
            left = end - time.monotonic()
            if left <= 0:
                return _Run(printed=bytes(printed), problem=late)
            for key, _ in selector.select(left):
                data = os.read(key.fd, 1 << 16)
                if not data:
                    selector.unregister(key.fd)
                elif key.fd == reading:
                    sent += data
                else:
                    printed = (printed + data)[-_MAX_PRINTED:]
            if len(sent) > limits.max_bytes:
                return _Run(printed=bytes(printed), problem=f"the program gave more than {limits.max_bytes} bytes")
    if not _await_exit(child, end):
        return _Run(printed=bytes(printed), problem=late)
    return _Run(bytes(sent), bytes(printed))


def _await_exit(child: subprocess.Popen[bytes], end: float) -> bool:
    """Whether the program ended in time. It is not reaped yet: until its group is ended, its id must stay its own."""
    while os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the program and whatever it started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    if child.stdout:
        child.stdout.close()


def _parse(sent: bytes) -> dict[str, Any] | None:
    try:
        answer = json.loads(sent)
    except (ValueError, RecursionError):
        return None
    if not isinstance(answer, dict):
        return None
    is_complete = isinstance(answer.get("resources"), list) or isinstance(answer.get("error"), dict)
    return answer if is_complete or isinstance(answer.get("refused"), str) else None


def _build_failure(error: dict[str, Any], path: Path, *, printed: bytes) -> SpecError:
    line, column = error.get("line", 0), error.get("column", 0)
    place = Place(str(path), line if isinstance(line, int) else 0, column if isinstance(column, int) else 0)
    lines = [mask_text(str(error.get("text", "")))]
    trace = error.get("trace", [])
    lines += (
        [f"  {frame}".replace(str(path.resolve()), str(path)) for frame in trace] if isinstance(trace, list) else []
    )
    return build_spec_error(place, "\n".join(lines) + _quote(printed), hint=f"correct the program {path}")


def _quote(printed: bytes) -> str:
    text = mask_text(printed.decode("utf-8", "replace")).strip()
    return f"\nit printed:\n{text}" if text else ""
