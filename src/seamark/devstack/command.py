"""The command line of devstack."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from seamark.devstack.client import READY, ask
from seamark.devstack.layout import build_layout, fetch_parts
from seamark.devstack.process import PortReservation, state_of, tie_to_parent, wait_until
from seamark.devstack.stack import KAFKA_VERSION, Stack, StackSpec, read_stack
from seamark.devstack.supervisor import Supervisor, is_alive
from seamark.errors import DevstackError, InterruptedRunError, SeamarkError


def default_file(name: str) -> Path:
    """Return the path of a named stack's JSON file."""
    from platformdirs import user_state_path  # noqa: PLC0415

    return user_state_path("seamark") / "devstack" / f"{name}.json"


def running_stack(file: Path) -> Stack:
    """Return the stack of that file. Raises if its supervisor is dead."""
    stack = read_stack(file)
    if not is_alive(stack.supervisor_pid):
        raise DevstackError(
            f"stack {stack.name!r} is not running: its supervisor has ended",
            hint="clean up: python -m seamark.devstack down",
        )
    return stack


def start_detached(spec: StackSpec, *, name: str, file: Path) -> None:
    """Start a stack that continues after this command; return when it is ready."""
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
    """Run the supervisor of a detached stack. Output before the ready line reaches the starter."""
    _supervise(spec, name=name, file=file, detach=True)


def run_foreground(spec: StackSpec, *, name: str, file: Path) -> None:
    """Run the supervisor of a stack that ends with the caller, even if the caller is killed."""
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
    # If devstack runs as root, PostgreSQL runs as another user, which must be able to traverse the folder.
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
            # The starter reads no further; a later print must not end this process.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        supervisor.serve()
    finally:
        if supervisor is not None:
            supervisor.end()
        shutil.rmtree(folder, ignore_errors=True)


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def end_stack(file: Path) -> None:
    """End a stack and wait until its supervisor and every server have ended."""
    stack = read_stack(file)
    if is_alive(stack.supervisor_pid):
        ask(Path(stack.folder), "down")
        wait_until(lambda: not is_alive(stack.supervisor_pid), "the supervisor ended", seconds=30)
    wait_until(lambda: all(state_of(entry.pid) == "gone" for entry in stack.servers), "every server ended", seconds=10)
    folder = Path(stack.folder)
    # The file is untrusted data: only a folder that a supervisor created is removed.
    if folder.name.startswith("seamark-") and folder.parent == Path(tempfile.gettempdir()):
        shutil.rmtree(folder, ignore_errors=True)
    file.unlink(missing_ok=True)
    file.with_suffix(".log").unlink(missing_ok=True)


def build_exports(stack: Stack, file: Path) -> str:
    """Return the shell line that points seamark to a stack."""
    values = {"SEAMARK_CONFIG": stack.context_file, "SEAMARK_DEVSTACK": str(file)}
    if stack.spark:
        values |= {"SEAMARK_SPARK_MASTER": stack.spark.master, "SEAMARK_SPARK_JARS": stack.spark.jars}
    return "export " + " ".join(f"{name}={shlex.quote(value)}" for name, value in values.items())


def print_status(file: Path) -> int:
    """Print the servers; return exit code 1 if one of them does not run."""
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
        # A server's log is untrusted data: a control character in it must not reach the terminal.
        print("".join(c if c.isprintable() or c == "\t" else f"\\x{ord(c):02x}" for c in line))


def signal_server(file: Path, command: str, *, name: str) -> str:
    """Ask the supervisor to kill, stop, continue or restart a server; return a message."""
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
            f"stack {stack.name!r} is already running",
            hint="use it, pass another --name, or stop it: python -m seamark.devstack down",
        )
    end_stack(file)


def _fetch(spec: StackSpec) -> None:
    begin = time.monotonic()
    _say("checking jars and programs; a first start downloads about 110 MB and builds the S3 server")
    fetch_parts(spec)
    _say(f"jars and programs are ready after {time.monotonic() - begin:.1f} s")


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
        print(f"  Toxiproxy: {stack.toxiproxy.api}, in front of {', '.join(stack.toxiproxy.doors)}")
    if stack.spark:
        print(f"  Spark {stack.spark.version}: {stack.spark.master}, web UI {stack.spark.ui}")
    flag = "" if file == default_file("default") else f" --file {file}"
    print(f'To use it: eval "$(python -m seamark.devstack env{flag})"')


_ABOUT = """Real Kafka brokers, Connect workers, PostgreSQL, S3 and Spark, as child processes.

  python -m seamark.devstack up --brokers 3 --workers 2 --postgres --s3
  eval "$(python -m seamark.devstack env)"
  seamark status
  python -m seamark.devstack down
"""


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        return _run(options)
    except KeyboardInterrupt:
        return InterruptedRunError.exit_code
    except SeamarkError as error:
        for word, text in (("error", error.message), ("cause", error.cause), ("hint", error.hint)):
            if text:
                print(f"{word}: {text}", file=sys.stderr)
        return error.exit_code


def _run(options: argparse.Namespace) -> int:
    file = Path(options.file).absolute() if options.file else default_file(options.name)
    match options.command:
        case "up":
            spec = StackSpec.from_json(options.spec) if options.spec else _spec(options)
            up = run_foreground if options.foreground else start_detached
            up(spec, name=options.name, file=file)
        case "fetch":
            _fetch(_spec(options))
        case "supervise":
            run_detached(StackSpec.from_json(options.spec), name=options.name, file=file)
        case "down":
            end_stack(file)
            print("the stack is down")
        case "status":
            return print_status(file)
        case "env":
            stack = running_stack(file)
            print(build_exports(stack, file))
        case "logs":
            print_log(file, options.server, lines=options.lines)
        case "seed":
            from seamark.devstack.seed import seed_stack  # noqa: PLC0415

            seed_stack(running_stack(file), rows=options.rows, say=print)
        case "lock-jars":
            from seamark.devstack.downloads import lock_jars  # noqa: PLC0415

            lock_jars(options.sets)
        case _:
            print(signal_server(file, options.command, name=options.server))
    return 0


def _spec(options: argparse.Namespace) -> StackSpec:
    return StackSpec(
        brokers=options.brokers,
        workers=options.workers,
        connect_versions=tuple(options.connect_version or [KAFKA_VERSION]),
        standalone=options.standalone,
        postgres=options.postgres,
        s3=options.s3,
        spark=options.spark,
        spark_workers=options.spark_workers,
        exactly_once=options.exactly_once,
        toxiproxy=options.toxiproxy,
        broker_doors=options.broker_doors,
        proxied_worker=options.proxied_worker,
        authorizer=options.authorizer,
        full_jit=options.full_jit,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m seamark.devstack", description=_ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--name", default="default", help="name of the stack; several can run at the same time")
    common.add_argument("--file", default=os.environ.get("SEAMARK_DEVSTACK"), help="JSON file of the stack")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    up = commands.add_parser("up", parents=[common], help="start a stack; returns when every server is ready")
    _add_servers(up)
    up.add_argument("--foreground", action="store_true", help="stay in the foreground and end with the caller")
    up.add_argument("--spec", help=argparse.SUPPRESS)
    fetch = commands.add_parser(
        "fetch", parents=[common], help="download what `up` needs with the same options, and start nothing"
    )
    _add_servers(fetch)

    supervise = commands.add_parser("supervise", parents=[common])
    supervise.add_argument("--spec", required=True)

    commands.add_parser("status", parents=[common], help="list the servers, their processes and ports")
    commands.add_parser("env", parents=[common], help="print shell lines that set up seamark for the stack")
    commands.add_parser("down", parents=[common], help="stop the stack and remove its data")
    seed = commands.add_parser("seed", parents=[common], help="create a table, a bucket and connectors between them")
    seed.add_argument("--rows", type=int, default=1000, metavar="N")
    for word, what in (
        ("kill", "SIGKILL a server"),
        ("stop", "SIGSTOP a server: it hangs"),
        ("cont", "SIGCONT a server"),
        ("restart", "restart a server and wait until it is ready"),
    ):
        commands.add_parser(word, parents=[common], help=what).add_argument("server", metavar="NAME")
    logs = commands.add_parser("logs", parents=[common], help="print the end of a server's log")
    logs.add_argument("server", metavar="NAME")
    logs.add_argument("--lines", type=int, default=50, metavar="N")
    lock = commands.add_parser("lock-jars", parents=[common], help="write new checksums of jar sets")
    lock.add_argument("sets", nargs="+", metavar="SET", help="kafka-V, connect-V, plugin-jdbc-V, plugin-s3-V, spark-V")
    return parser


def _add_servers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--brokers", type=int, default=1, metavar="N")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="workers of each Connect cluster")
    parser.add_argument(
        "--connect-version",
        action="append",
        metavar="V",
        help="version of a Connect cluster; repeatable, one cluster per version",
    )
    parser.add_argument("--standalone", action="store_true", help="also start a standalone worker")
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--s3", action="store_true")
    parser.add_argument(
        "--spark", action="store_true", help="start a standalone Spark master and worker; needs seamark[spark]"
    )
    parser.add_argument(
        "--spark-workers",
        type=int,
        default=1,
        metavar="N",
        help="number of Spark workers, each on its own host address",
    )
    parser.add_argument("--exactly-once", action="store_true", help="enable exactly-once sources")
    parser.add_argument(
        "--toxiproxy", action="store_true", help="put a proxy in front of each worker, for network faults"
    )
    parser.add_argument(
        "--broker-doors", action="store_true", help="put a proxy in front of a second listener of each broker"
    )
    parser.add_argument(
        "--proxied-worker", action="store_true", help="put proxies between the last worker and the brokers"
    )
    parser.add_argument("--authorizer", action="store_true", help="enable ACLs, and a listener with authentication")
    parser.add_argument(
        "--full-jit", action="store_true", help="use the full JIT compiler: slower start, faster servers"
    )
