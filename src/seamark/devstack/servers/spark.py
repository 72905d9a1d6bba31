"""Spark: a standalone master and one worker, from the pyspark wheel. Executors are processes of their own.

An executor ends itself when it loses its worker, so that nothing outlives the stack.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from seamark.devstack.java import LOG4J2
from seamark.devstack.ports import PortReservation, answers
from seamark.devstack.process import Server
from seamark.devstack.spec import SPARK_VERSION
from seamark.devstack.stack import SparkEndpoint
from seamark.errors import DevstackError

# What the worker may hand out: two executors with a core and 512 MB each, and their Python processes.
_CORES, _MEMORY = 2, "3g"
# Master and worker keep books; neither touches data.
_DAEMON_MEMORY = "256m"
_INSTALL = f"pip install 'seamark[spark]' (pyspark {SPARK_VERSION})"


def find_spark() -> Path:
    """The folder of the installed pyspark, which is Spark's home; the version that the jars are for, or an error."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise DevstackError("Spark is asked for, and pyspark is not installed", hint=_INSTALL)
    try:
        found = version("pyspark")
    except PackageNotFoundError:
        found = "unknown"
    if found != SPARK_VERSION:
        raise DevstackError(f"pyspark is of version {found}; the jars are for {SPARK_VERSION}", hint=_INSTALL)
    return Path(spec.origin).parent


def build_spark(
    *, home: Path, jars: Path, folder: Path, ports: PortReservation, full_jit: bool
) -> tuple[SparkEndpoint, list[Server]]:
    """Say how master and worker start."""
    port, master_ui, worker_port, worker_ui = (ports.take() for _ in range(4))
    url = f"spark://127.0.0.1:{port}"
    config = folder / "spark"
    config.mkdir()
    (config / "log4j2.properties").write_text(LOG4J2)
    env = _environment(home, config=config, full_jit=full_jit)
    master = _server(
        "spark-master",
        home=home,
        folder=folder,
        port=port,
        env=env,
        arguments=("master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(master_ui)),
    )
    listen = ("--host", "127.0.0.1", "--port", str(worker_port), "--webui-port", str(worker_ui))
    worker = _server(
        "spark-worker",
        home=home,
        folder=folder,
        port=worker_port,
        env=env,
        arguments=("worker.Worker", *listen, "-c", str(_CORES), "-m", _MEMORY, url),
        after=("spark-master",),
    )
    endpoint = SparkEndpoint(url, ui=f"http://127.0.0.1:{master_ui}", version=SPARK_VERSION, jars=str(jars))
    return endpoint, [master, worker]


def _server(
    name: str,
    *,
    home: Path,
    folder: Path,
    port: int,
    env: dict[str, str],
    arguments: tuple[str, ...],
    after: tuple[str, ...] = (),
) -> Server:
    data = folder / name
    data.mkdir()
    main, *rest = arguments
    said = "Successfully registered with master" if after else "I have been elected leader"
    return Server(
        name=name,
        kind=name,
        # The script puts the options together that Spark needs on a new Java, and becomes the JVM itself.
        command=("bash", str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{main}", *rest),
        log=folder / "logs" / f"{name}.log",
        data=data,
        port=port,
        version=SPARK_VERSION,
        env=env | {"SPARK_WORKER_DIR": str(data), "SPARK_LOCAL_DIRS": str(data)},
        after=after,
        is_ready=lambda running: running.log_says(said) and answers(port),
    )


def _environment(home: Path, *, config: Path, full_jit: bool) -> dict[str, str]:
    return {
        "SPARK_HOME": str(home),
        "SPARK_CONF_DIR": str(config),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": _DAEMON_MEMORY,
        "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC" + ("" if full_jit else " -XX:TieredStopAtLevel=1"),
    }
