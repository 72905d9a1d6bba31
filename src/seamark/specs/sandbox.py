"""Run a spec program in a child process: isolated, with a scrubbed environment, a deadline and bounded output."""

from __future__ import annotations

import ctypes
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from seamark.core.files import FileLocation
from seamark.core.secrets import is_sensitive, mask_text, mask_value
from seamark.errors import RefusedError, SpecError
from seamark.specs.document import build_spec_error

# Processes of one user can read each other's environment and memory through /proc and ptrace. Linux asks
# `ptrace_may_access` before each of them, which denies a process
#
# - in another user namespace, for every process outside of it (cap_ptrace_access_check: the namespaces differ);
# - without the capabilities of the other one, which covers root and containers that forbid namespaces;
# - if the other one is not dumpable (prctl PR_SET_DUMPABLE), which covers the parent only.
#
# All three are applied. Because a machine may forbid any of them, the child then tries to read, and the program runs
# only if that fails.

_CLONE_NEWUSER = 0x10000000
_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_CAPABILITY_VERSION = 0x20080522
_MOST_CAPABILITIES = 64


def set_dumpable(is_dumpable: bool) -> None:
    """Allow or forbid other processes of the user to read this one.

    It stays forbidden after a program ended: a process that the program left behind could still read.
    """
    if sys.platform == "linux":
        _load_libc().prctl(_PR_SET_DUMPABLE, int(is_dumpable), 0, 0, 0)


def isolate(parent: int, names: Sequence[str], *, platform: str = sys.platform, namespaces: bool = True) -> str:
    """Cut this process off from its parent. Return why that failed, or an empty text.

    `names` are the variables that a program must not see. This must run before any code of the program.
    """
    if platform != "linux":
        # Nothing here prevents a process from reading the environment of its parent, so there must be nothing to find.
        return f"on {platform} a program can read these variables of its parent: {', '.join(names)}" if names else ""
    if namespaces:
        _enter_user_namespace()
    _drop_capabilities()
    return _find_readable(parent, names)


def _enter_user_namespace() -> bool:
    uid, gid = os.getuid(), os.getgid()
    if _load_libc().unshare(_CLONE_NEWUSER) != 0:
        return False
    # Without the maps the program would run as user 65534; a container may forbid to write them.
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with suppress(OSError):
            Path("/proc/self", name).write_text(text, encoding="ascii")
    return True


def _drop_capabilities() -> None:
    """Give up every capability permanently, those of the new namespace too."""

    class Header(ctypes.Structure):
        _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))

    class Data(ctypes.Structure):
        _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))

    libc = _load_libc()
    for capability in range(_MOST_CAPABILITIES):
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    libc.capset(ctypes.byref(Header(_CAPABILITY_VERSION, 0)), (Data * 2)())
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def _find_readable(parent: int, names: Sequence[str]) -> str:
    """Return which process can still be read: the parent, or one whose environment holds a variable of `names`."""
    if not Path("/proc/self/environ").exists():
        return "/proc is not mounted, so seamark can't check what the program could read"
    if _read_environment(str(parent)) is not None:
        return "the program can read the environment of its parent"
    wanted = tuple(f"{name}=".encode() for name in names)
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal() or int(folder.name) == os.getpid():
            continue
        if any(entry.startswith(wanted) for entry in _read_environment(folder.name) or ()):
            return f"the program can read the environment of process {folder.name}, which has such variables"
    return ""


def _read_environment(process: str) -> list[bytes] | None:
    try:
        return Path("/proc", process, "environ").read_bytes().split(b"\0")
    except OSError:
        return None


def _load_libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


# A program builds dictionaries from a list of tables, which takes milliseconds. Querying a database may take seconds.
DEADLINE_SECONDS = 30.0
# 10,000 connectors of 50 keys take about 20 MB.
MAX_BYTES = 64 << 20
# The output of a failed program is shown; its end is the most useful part.
_MAX_PRINTED = 4000
# What a locale-aware library needs to start. HOME is excluded, because it contains credentials.
_PASSED = ("PATH", "LANG", "LC_ALL", "TZ")
_FLAGS = ("-I", "-B", "-X", "utf8")
# The child must run this same installation; `-I` finds the one that is installed for the interpreter.
_START = "import sys; sys.path.insert(0, sys.argv[2]); from seamark.specs.program import main; del sys.path[0]; main()"
_ROOT = Path(__file__).parents[2]


def run_program(
    path: Path,
    *,
    environ: Mapping[str, str],
    deadline_seconds: float = DEADLINE_SECONDS,
    max_bytes: int = MAX_BYTES,
) -> list[dict[str, Any]]:
    """Return the resources of a program as unchecked data."""
    withheld = [name for name, value in environ.items() if is_sensitive(name) or mask_value(name, value) != value]
    order = {
        "path": str(path.resolve()),
        "environ": {name: value for name, value in environ.items() if name not in withheld},
        "withheld": withheld,
    }
    run = _run(order, environ=environ, limits=_Limits(deadline_seconds, max_bytes))
    place = FileLocation(str(path))
    if run.problem:
        raise build_spec_error(place, run.problem + _quote(run.printed), hint="check the program, and run it manually")
    answer = _parse(run.sent)
    if answer is None:
        raise build_spec_error(
            place,
            f"the program ended with exit code {run.code} and returned nothing{_quote(run.printed)}",
            hint="run it manually",
        )
    if "refused" in answer:
        raise RefusedError(
            f"{path} was not run: seamark can't hide secrets from it on this machine",
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
        # A file, not a pipe: a program that does not read can't block this process.
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
    """Read from both pipes until the pipe of the result is closed."""
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
                return _Run(printed=bytes(printed), problem=f"the program returned more than {limits.max_bytes} bytes")
    if not _await_exit(child, end):
        return _Run(printed=bytes(printed), problem=late)
    return _Run(bytes(sent), bytes(printed))


def _await_exit(child: subprocess.Popen[bytes], end: float) -> bool:
    """Return whether the program ended in time. It is not reaped yet: its ID stays valid until its group is ended."""
    while os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the program and all processes that it started."""
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
    place = FileLocation(str(path), line if isinstance(line, int) else 0, column if isinstance(column, int) else 0)
    lines = [mask_text(str(error.get("text", "")))]
    trace = error.get("trace", [])
    lines += (
        [f"  {frame}".replace(str(path.resolve()), str(path)) for frame in trace] if isinstance(trace, list) else []
    )
    return build_spec_error(place, "\n".join(lines) + _quote(printed), hint=f"correct the program {path}")


def _quote(printed: bytes) -> str:
    text = mask_text(printed.decode("utf-8", "replace")).strip()
    return f"\noutput:\n{text}" if text else ""
