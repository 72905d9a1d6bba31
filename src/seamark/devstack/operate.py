"""What the devstack commands do."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from seamark.devstack.client import READY
from seamark.devstack.control import ask
from seamark.devstack.layout import build_layout, fetch_parts
from seamark.devstack.ports import PortReservation
from seamark.devstack.process import state_of, tie_to_parent
from seamark.devstack.spec import StackSpec
from seamark.devstack.stack import Stack, read_stack
from seamark.devstack.supervisor import Supervisor, is_alive
from seamark.devstack.wait import wait_until
from seamark.errors import DevstackError


def default_file(name: str) -> Path:
    """Where a named stack keeps its JSON file."""
    from platformdirs import user_state_path  # noqa: PLC0415

    return user_state_path("seamark") / "devstack" / f"{name}.json"


def running_stack(file: Path) -> Stack:
    """The stack of that file; an error if its supervisor is dead."""
    stack = read_stack(file)
    if not is_alive(stack.supervisor_pid):
        raise DevstackError(
            f"the stack {stack.name!r} does not run: its supervisor is dead",
            hint="python -m seamark.devstack down clears what is left of it",
        )
    return stack


def start_detached(spec: StackSpec, *, name: str, file: Path) -> None:
    """Start a stack that goes on after this command; return when it is ready."""
    _refuse_running(file)
    _fetch(spec)
    command = [sys.executable, "-m", "seamark.devstack", "supervise", "--name", name, "--file", str(file)]
    file.parent.mkdir(parents=True, exist_ok=True)
    log = file.with_suffix(".log")
    with log.open("w") as errors:
        supervisor = subprocess.Popen(
            [*command, "--spec", spec.to_json()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
            text=True,
        )
    stdout = supervisor.stdout
    if stdout is None:
        raise AssertionError
    try:
        for line in stdout:
            if line.startswith(READY):
                _print_ready(read_stack(file), file)
                return
            print(line, end="", flush=True)
    except KeyboardInterrupt:
        supervisor.send_signal(signal.SIGTERM)
        raise
    finally:
        stdout.close()
    supervisor.wait(30)
    raise DevstackError("the stack did not start", cause=log.read_text()[-3000:].strip())


def run_detached(spec: StackSpec, *, name: str, file: Path) -> None:
    """Be the supervisor of a detached stack. What is printed before the ready line reaches the starter."""
    _supervise(spec, name=name, file=file, detach=True)


def run_foreground(spec: StackSpec, *, name: str, file: Path) -> None:
    """Be the supervisor of a stack that ends with the caller, also when the caller is killed."""
    caller = os.getppid()
    tie_to_parent(signal.SIGTERM)
    if os.getppid() != caller:
        raise DevstackError("the caller ended before the stack was started")
    _refuse_running(file)
    _fetch(spec)
    _supervise(spec, name=name, file=file, detach=False)


def _supervise(spec: StackSpec, *, name: str, file: Path, detach: bool) -> None:
    begin = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix=f"seamark-{name}-"))
    # PostgreSQL runs as another user where we are root, and must be able to pass through.
    folder.chmod(0o711)
    signal.signal(signal.SIGTERM, _interrupt)
    supervisor = None
    try:
        layout = build_layout(spec, name=name, folder=folder, supervisor_pid=os.getpid(), ports=PortReservation())
        for note in layout.notes:
            _say(f"note: {note}")
        supervisor = Supervisor(layout, stack_file=file, say=_say)
        supervisor.start()
        _say(f"{READY}{len(layout.servers)} servers in {time.monotonic() - begin:.1f} s")
        if detach:
            # The starter reads no further; a later print must not kill us.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        supervisor.serve()
    finally:
        if supervisor is not None:
            supervisor.end()
        shutil.rmtree(folder, ignore_errors=True)


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def end_stack(file: Path) -> None:
    """End a stack and wait until its supervisor and every server are gone."""
    stack = read_stack(file)
    if is_alive(stack.supervisor_pid):
        ask(Path(stack.folder), "down")
        wait_until(lambda: not is_alive(stack.supervisor_pid), "the supervisor ended", seconds=30)
    wait_until(
        lambda: all(state_of(entry.pid) == "gone" for entry in stack.servers), "every server was gone", seconds=10
    )
    folder = Path(stack.folder)
    # The file is data: only a folder that a supervisor made is removed.
    if folder.name.startswith("seamark-") and folder.parent == Path(tempfile.gettempdir()):
        shutil.rmtree(folder, ignore_errors=True)
    file.unlink(missing_ok=True)
    file.with_suffix(".log").unlink(missing_ok=True)


def build_exports(stack: Stack, file: Path) -> str:
    """The shell line that points seamark to a stack."""
    values = {"SEAMARK_CONFIG": stack.context_file, "SEAMARK_DEVSTACK": str(file)}
    if stack.spark:
        values |= {"SEAMARK_SPARK_MASTER": stack.spark.master, "SEAMARK_SPARK_JARS": stack.spark.jars}
    return "export " + " ".join(f"{name}={shlex.quote(value)}" for name, value in values.items())


def print_status(file: Path) -> int:
    """Print the servers; exit code 1 if one of them does not run."""
    stack = running_stack(file)
    states = {entry.name: state_of(entry.pid) for entry in stack.servers}
    print(f"{'SERVER':<18}{'STATE':<10}{'PID':<9}{'PORT':<8}{'VERSION':<9}")
    for entry in stack.servers:
        print(f"{entry.name:<18}{states[entry.name]:<10}{entry.pid:<9}{entry.port:<8}{entry.version:<9}")
    return 0 if set(states.values()) == {"running"} else 1


def print_log(file: Path, server: str, *, lines: int) -> None:
    """Print the end of a server's log."""
    log = Path(running_stack(file).server(server).log)
    for line in log.read_text(errors="replace").splitlines()[-lines:]:
        # What a server logs is data: a control character in it must not reach the terminal.
        print("".join(c if c.isprintable() or c == "\t" else f"\\x{ord(c):02x}" for c in line))


def signal_server(file: Path, command: str, *, name: str) -> str:
    """Have the supervisor kill, stop, continue or restart a server; give a sentence."""
    stack = running_stack(file)
    stack.server(name)
    answer = ask(Path(stack.folder), command, name)
    done = {"kill": "killed", "stop": "stopped", "cont": "continued", "restart": "restarted"}[command]
    return f"{name} {done}, pid {answer['pid']}"


def _refuse_running(file: Path) -> None:
    if not file.exists():
        return
    stack = read_stack(file)
    if is_alive(stack.supervisor_pid):
        raise DevstackError(
            f"a stack {stack.name!r} runs already",
            hint="use it, or give another --name, or: python -m seamark.devstack down",
        )
    end_stack(file)


def _fetch(spec: StackSpec) -> None:
    begin = time.monotonic()
    _say("looking for jars and programs; a first start fetches about 110 MB and builds the S3 server")
    fetch_parts(spec)
    _say(f"jars and programs are there after {time.monotonic() - begin:.1f} s")


def _say(text: str) -> None:
    print(text, flush=True)


def _print_ready(stack: Stack, file: Path) -> None:
    print(f"the stack {stack.name!r} is ready: {len(stack.servers)} servers, described in {file}")
    for name, endpoint in stack.connect.items():
        print(f"  Connect {name} {endpoint.version}: {' '.join(endpoint.urls)}")
    print(f"  Kafka {stack.kafka.version}: {stack.kafka.bootstrap_servers}")
    if stack.postgres:
        print(f"  PostgreSQL: {stack.postgres.host}:{stack.postgres.port}")
    if stack.s3:
        print(f"  S3: {stack.s3.endpoint}")
    if stack.toxiproxy:
        print(f"  Toxiproxy: {stack.toxiproxy.api}, before {', '.join(stack.toxiproxy.doors)}")
    if stack.spark:
        print(f"  Spark {stack.spark.version}: {stack.spark.master}, its page {stack.spark.ui}")
    flag = "" if file == default_file("default") else f" --file {file}"
    print(f'To use it: eval "$(python -m seamark.devstack env{flag})"')
