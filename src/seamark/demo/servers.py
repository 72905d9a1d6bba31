"""The servers of the demo: started by devstack as a child process, and ended through devstack."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING

from seamark.demo.chapter import Need
from seamark.errors import DevstackError, format_install_hint

if TYPE_CHECKING:
    from seamark.devstack import Stack


CONTEXT_FILE = "seamark.yaml"


def build_context(stack: Stack, folder: Path) -> str:
    """Return the text of the contexts file."""
    connect = stack.connect["connect"]
    return f"""\
# The context of the demo. It is removed with the servers.
current: demo
contexts:
  demo:
    kafka:
      bootstrap.servers: {stack.kafka.bootstrap_servers}
    connect:
      connect:
        urls: {json.dumps(connect.urls)}
        worker_config: {json.dumps(connect.worker_config)}
    policy:
      # Connectors may access only these files of the worker's machine.
      files: {json.dumps([f"{folder}/**"])}
      provider_paths: {json.dumps(["default", f"{stack.folder}/secrets/**"])}
{_build_databases(stack)}{_build_lakes(stack)}"""


def _build_databases(stack: Stack) -> str:
    """Return the databases in which rows are counted. The demo's commands have the password in their environment."""
    found = stack.postgres
    if found is None:
        return ""
    place = f"{found.host}:{found.port}/{found.database}"
    return f"""\
    databases:
      game:
        jdbc_url: jdbc:postgresql://{place}
        dsn: postgresql://{found.user}@{place}
"""


def _build_lakes(stack: Stack) -> str:
    """Return the lake in which topics are stored as tables. Its keys stay in the stack's folder."""
    if stack.s3 is None:
        return ""
    return f"""\
    lakes:
      lake:
        url: s3://lake/tables
        endpoint: {stack.s3.endpoint}
        access_key: secret://file/{stack.folder}/secrets/s3.properties#access_key
        secret_key: secret://file/{stack.folder}/secrets/s3.properties#secret_key
"""


@dataclass(frozen=True, slots=True)
class Lack:
    """A missing requirement: what it is, and how to get it."""

    need: Need
    why: str
    hint: str = ""

    def __str__(self) -> str:
        """Format one line: `PostgreSQL (on Debian: apt-get install postgresql)`."""
        return f"{self.need} ({self.hint or self.why})"


def find_lacks(needs: Iterable[Need]) -> tuple[Lack, ...]:
    """Return the requirements that this machine does not meet. Nothing is downloaded or started for it."""
    found = []
    for need in dict.fromkeys(needs):
        try:
            _CHECKS[need]()
        except DevstackError as error:
            found.append(Lack(need, error.message, error.hint))
    return tuple(found)


def build_refusal(lacks: Iterable[Lack]) -> DevstackError:
    """Build the error for a machine on which the servers can't start."""
    lacks = tuple(lacks)
    return DevstackError(
        f"the demo needs {' and '.join(lack.need for lack in lacks)}",
        cause="; ".join(lack.why for lack in lacks),
        hint="; ".join(lack.hint for lack in lacks if lack.hint),
    )


def _check_java() -> None:
    from seamark.devstack.java import find_java  # noqa: PLC0415

    if not sys.platform.startswith("linux"):
        raise DevstackError("the servers of the demo require Linux", hint="use a Linux machine")
    try:
        find_java()
    except DevstackError as error:
        hint = "on Debian: apt-get install openjdk-17-jre-headless; or set JAVA_HOME"
        raise DevstackError(error.message, cause=error.cause, hint=hint) from None


def _check_jars() -> None:
    from seamark.devstack.stack import KAFKA_VERSION  # noqa: PLC0415

    _check_jar_set(f"kafka-{KAFKA_VERSION}")


def _check_jar_set(name: str) -> None:
    from seamark.devstack.downloads import cache_folder  # noqa: PLC0415

    if not (cache_folder() / "jars" / name).is_dir() and not shutil.which("mvn"):
        raise DevstackError(
            f"Maven is not installed, which is needed to download the jars {name}",
            hint="on Debian: apt-get install maven",
        )


def _check_postgres() -> None:
    from seamark.devstack.servers.postgres import find_programs  # noqa: PLC0415

    find_programs()
    if not shutil.which("psql"):
        raise DevstackError("psql is not installed", hint="on Debian: apt-get install postgresql-client")


def _check_s3() -> None:
    from seamark.devstack.downloads import cache_folder  # noqa: PLC0415
    from seamark.devstack.servers.s3 import VERSION  # noqa: PLC0415

    if not (cache_folder() / "bin" / f"versitygw-{VERSION}").is_dir() and not shutil.which("go"):
        raise DevstackError("Go is not installed, which is needed to build the S3 server", hint="install Go")


def _check_plugin(name: str) -> None:
    from seamark.devstack.java import RELEASES, plugin_places  # noqa: PLC0415

    (release,) = (release for release in RELEASES if release.name == name)
    found = [path for place in plugin_places() for path in place.glob(f"{release.jar}*")]
    if not any(path.is_dir() or path.suffix == ".jar" for path in found):
        raise DevstackError(
            f"the {name} connector was not found",
            hint=f"put {release.where} into a folder and name it in SEAMARK_PLUGINS",
        )
    if not any(path.is_dir() for path in found):
        _check_jar_set(release.dependencies)


def _check_spark() -> None:
    from seamark.devstack.stack import SPARK_VERSION  # noqa: PLC0415

    missing = [package for package in ("pyspark", "pyarrow", "deltalake") if find_spec(package) is None]
    if missing:
        raise DevstackError(f"{' and '.join(missing)} is not installed", hint=format_install_hint("spark"))
    _check_jar_set(f"spark-{SPARK_VERSION}")


_CHECKS: Mapping[Need, Callable[[], None]] = {
    Need.JAVA: _check_java,
    Need.JARS: _check_jars,
    Need.POSTGRES: _check_postgres,
    Need.JDBC: lambda: _check_plugin("jdbc"),
    Need.S3: _check_s3,
    Need.S3_SINK: lambda: _check_plugin("s3"),
    Need.SPARK: _check_spark,
}


# devstack's own messages for "everything is up": of a supervisor, and of the starter of a detached one.
_READY = ("ready: ", "the stack ")
_DEVSTACK = (sys.executable, "-m", "seamark.devstack")
# Ending takes 1-4 s here; devstack itself gives a supervisor 30 s.
_END_SECONDS = 45.0


@contextlib.contextmanager
def run_servers(file: Path, *, options: Sequence[str], keep: bool, tell: Callable[[str], None]) -> Iterator[Stack]:
    """Start a stack that runs as long as this block; with `keep` it continues if the block ends without an error.

    Without `keep` the kernel ends the servers even if this process is killed.
    """
    with _ended_by_signals(), _run_detached(file, options, tell) if keep else _run_tied(file, options, tell):
        from seamark.devstack import load_stack  # noqa: PLC0415

        yield load_stack(file)


@contextlib.contextmanager
def _run_tied(file: Path, options: Sequence[str], tell: Callable[[str], None]) -> Iterator[None]:
    process = _start(["up", "--foreground", *options], file)
    try:
        said = _tell_until_ready(process.stdout, tell)
        if said is not None:
            raise _build_failure(said)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        _await_end(process)


@contextlib.contextmanager
def _run_detached(file: Path, options: Sequence[str], tell: Callable[[str], None]) -> Iterator[None]:
    process = _start(["up", *options], file)
    try:
        _await_started(process, tell)
        yield
    except BaseException:
        # A second signal has no effect if it has ended.
        process.send_signal(signal.SIGINT)
        _await_end(process)
        if file.exists():
            _await_end(_start(["down"], file))
        raise
    finally:
        _close(process)


def _start(arguments: Sequence[str], file: Path) -> subprocess.Popen[str]:
    environ = {name: value for name, value in os.environ.items() if name != "SEAMARK_DEVSTACK"}
    return subprocess.Popen(
        [*_DEVSTACK, *arguments, "--name", "demo", "--file", str(file)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**environ, "PYTHONUNBUFFERED": "1"},
        # Its own session: a Ctrl-C must not end the servers before the command that still uses them.
        start_new_session=True,
    )


def _await_started(process: subprocess.Popen[str], tell: Callable[[str], None]) -> None:
    said = _tell_until_ready(process.stdout, tell)
    if process.wait(_END_SECONDS):
        raise _build_failure(said or [])


def _tell_until_ready(stream: IO[str] | None, tell: Callable[[str], None]) -> list[str] | None:
    """Forward its output. Return None once it is ready, or all its output if it ended before."""
    said = []
    for line in stream or ():
        if line.startswith(_READY):
            return None
        said.append(line.rstrip())
        tell(line.rstrip())
    return said


def _build_failure(said: Sequence[str]) -> DevstackError:
    return DevstackError(
        "the servers of the demo did not start",
        cause="\n".join(said[-15:]),
        hint="run seamark demo again; docs/contributing/devstack.md lists the requirements",
    )


def _await_end(process: subprocess.Popen[str]) -> None:
    try:
        process.communicate(timeout=_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
    finally:
        _close(process)


def _close(process: subprocess.Popen[str]) -> None:
    if process.stdout:
        process.stdout.close()


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Make SIGHUP and SIGTERM end the servers as Ctrl-C does."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    former = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, disposition in former.items():
            signal.signal(number, disposition)
