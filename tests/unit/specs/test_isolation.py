"""What a spec program can't read: its parent, and every other process with secrets in its environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from seamark.errors import RefusedError
from seamark.specs import sandbox
from seamark.specs import sandbox as isolation
from seamark.specs.sandbox import run_program

NAME = "KAFKA_PROD_PASSWORD"
CANARY = "hunter2-canary"
# Tries what a hostile program would: files of /proc, the memory of its parent, and a debugger's system calls.
PROGRAM = """\
import ctypes, glob, json, os, pwd
from seamark.specs import connector

def read(path):
    try:
        with open(path, "rb") as file:
            return file.read(100_000).decode("utf-8", "replace")
    except OSError as error:
        return type(error).__name__

def attach(pid):
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.ptrace(0x4206, pid, None, None)  # PTRACE_SEIZE

def copy(pid):
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(8)
    class Part(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]
    own, other = Part(ctypes.addressof(buffer), 8), Part(ctypes.addressof(buffer), 8)
    return libc.process_vm_readv(pid, ctypes.byref(own), 1, ctypes.byref(other), 1, 0)

def resources(env):
    parent = os.getppid()
    found = {name: read(f"/proc/{parent}/{name}") for name in ("environ", "mem", "auxv", "maps", "stack")}
    # Their numbers may be listed; what they lead to may not be opened.
    found["fds"] = sorted({read(path) for path in glob.glob(f"/proc/{parent}/fd/*")})
    found["ptrace"], found["copied"] = attach(parent), copy(parent)
    found["others"] = [path for path in glob.glob("/proc/[0-9]*/environ") if "CANARY" in read(path)]
    found["user"] = pwd.getpwuid(os.getuid()).pw_uid == os.getuid()
    yield connector("a", {"found": json.dumps(found)})
""".replace("CANARY", CANARY)


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "x.py"
    path.write_text(PROGRAM)
    path.chmod(0o644)
    return path


def test_a_program_can_not_read_its_parent(program) -> None:
    """B14: /proc/PPID/environ, its memory and a debugger's system calls."""
    environ = {**os.environ, NAME: CANARY}
    (resource,) = _run_below_a_process_with_the_secret(program, environ)
    found = json.loads(resource["config"]["found"])
    assert (found["environ"], found["mem"], found["maps"]) == ("PermissionError",) * 3
    assert set(found["fds"]) <= {"PermissionError"}
    assert (found["ptrace"], found["copied"], found["others"]) == (-1, -1, [])
    assert found["user"] is True


def test_a_program_runs_where_its_environment_has_no_secrets(program) -> None:
    environ = {"PATH": os.environ["PATH"]}
    assert run_program(program, environ=environ)[0]["name"] == "a"


@pytest.mark.parametrize("is_dumpable", [True, False])
def test_without_user_namespaces_a_readable_parent_is_found(is_dumpable: bool) -> None:
    """A parent without capabilities is readable unless it gave up being dumpable."""
    reason = _isolate_below(is_dumpable=is_dumpable)
    assert ("its parent" in reason) is is_dumpable


def test_dropped_capabilities_protect_a_privileged_parent() -> None:
    if os.geteuid() != 0:
        assert "its parent" in _isolate_below(is_dumpable=True)
        return
    assert _fork(lambda: _fork(lambda: isolation.isolate(os.getppid(), (), namespaces=False))) == ""


def test_a_program_that_could_read_secrets_is_not_run(program, monkeypatch) -> None:
    marker = program.parent / "ran"
    program.write_text(f"open({str(marker)!r}, 'w')\ndef resources(env): return []\n")
    start = f"import sys; sys.path[:0] = {sys.path!r}; from tests.unit.specs.open_child import main; main()"
    monkeypatch.setattr(sandbox, "_START", start)
    with pytest.raises(RefusedError) as caught:
        run_program(program, environ={**os.environ, NAME: CANARY})
    assert not marker.exists()
    assert "can read the environment of its parent" in caught.value.cause
    assert CANARY not in str(caught.value.as_dict())


def test_elsewhere_than_on_linux_a_program_runs_only_without_secrets() -> None:
    assert isolation.isolate(os.getppid(), (), platform="darwin") == ""
    reason = isolation.isolate(os.getppid(), (NAME,), platform="darwin")
    assert NAME in reason


def _run_below_a_process_with_the_secret(program, environ):
    """Run a program from a process whose real environment holds the secret, as a shell's child has it."""
    code = (
        "import json, os, pathlib, sys\n"
        "from seamark.specs.sandbox import run_program\n"
        "print(json.dumps(run_program(pathlib.Path(sys.argv[1]), environ=os.environ)))\n"
    )
    environ = {**environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(
        [sys.executable, "-c", code, str(program)], env=environ, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def _isolate_below(*, is_dumpable: bool) -> str:
    """Isolate a grandchild from a child without privileges, without user namespaces."""

    def below() -> str:
        if os.geteuid() == 0:
            os.setuid(65534)
        isolation.set_dumpable(is_dumpable)
        return _fork(lambda: isolation.isolate(os.getppid(), (), namespaces=False))

    return _fork(below)


def _fork(action) -> str:
    """Return what an action returns in a forked process."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writing, action().encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        text = file.read()
    os.waitpid(pid, 0)
    return text
