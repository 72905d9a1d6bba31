"""Spark: a standalone master and workers, from the pyspark wheel. Executors are separate processes.

An executor ends itself when it loses its worker, so that nothing outlives the stack.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from seamark.devstack.java import LOG4J2
from seamark.devstack.process import PortReservation, Server, answers
from seamark.devstack.stack import SPARK_VERSION, SparkEndpoint
from seamark.errors import DevstackError, format_install_hint

# What a worker may allocate: two executors with a core and 512 MB each, and their Python processes.
_CORES, _MEMORY = 2, "3g"
# Master and worker only coordinate; neither processes data.
_DAEMON_MEMORY = "256m"
_INSTALL = f"{format_install_hint('spark')} (pyspark {SPARK_VERSION})"


def find_spark() -> Path:
    """Return the folder of the installed pyspark, which is Spark's home. Raises unless its version matches the jars."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise DevstackError("pyspark is not installed, which --spark needs", hint=_INSTALL)
    try:
        found = version("pyspark")
    except PackageNotFoundError:
        found = "unknown"
    if found != SPARK_VERSION:
        raise DevstackError(f"pyspark has version {found}, and the jars have {SPARK_VERSION}", hint=_INSTALL)
    return Path(spec.origin).parent


def build_spark(
    workers: int, *, home: Path, jars: Path, folder: Path, ports: PortReservation, full_jit: bool
) -> tuple[SparkEndpoint, list[Server]]:
    """Return how master and workers start."""
    port, page = ports.take(), ports.take()
    url = f"spark://127.0.0.1:{port}"
    config = folder / "spark"
    config.mkdir()
    (config / "log4j2.properties").write_text(LOG4J2)
    env = {
        "SPARK_HOME": str(home),
        "SPARK_CONF_DIR": str(config),
        "SPARK_DAEMON_MEMORY": _DAEMON_MEMORY,
        "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC" + ("" if full_jit else " -XX:TieredStopAtLevel=1"),
    }
    servers = [
        _server("spark-master", "master.Master", home=home, folder=folder, port=port, page=page, env=env),
        *(
            _server(
                f"spark-worker-{number}",
                "worker.Worker",
                "-c",
                str(_CORES),
                "-m",
                _MEMORY,
                url,
                home=home,
                folder=folder,
                host=f"127.0.0.{number}",
                port=ports.take(),
                page=ports.take(),
                env=env,
            )
            for number in range(1, workers + 1)
        ),
    ]
    return SparkEndpoint(url, ui=f"http://127.0.0.1:{page}", version=SPARK_VERSION, jars=str(jars)), servers


def _server(
    name: str,
    main_class: str,
    *arguments: str,
    home: Path,
    folder: Path,
    port: int,
    page: int,
    env: dict[str, str],
    host: str = "127.0.0.1",
) -> Server:
    data = folder / name
    data.mkdir()
    is_worker = bool(arguments)
    said = "Successfully registered with master" if is_worker else "I have been elected leader"
    listen = ("--host", host, "--port", str(port), "--webui-port", str(page))
    # The script assembles the options that Spark needs on a new Java, and becomes the JVM itself.
    script = ("bash", str(home / "bin" / "spark-class"))
    return Server(
        name=name,
        kind="spark-worker" if is_worker else "spark-master",
        command=(*script, f"org.apache.spark.deploy.{main_class}", *listen, *arguments),
        log=folder / "logs" / f"{name}.log",
        data=data,
        port=port,
        version=SPARK_VERSION,
        env=env | {"SPARK_LOCAL_IP": host, "SPARK_WORKER_DIR": str(data), "SPARK_LOCAL_DIRS": str(data)},
        after=("spark-master",) if is_worker else (),
        is_ready=lambda running: running.log_says(said) and answers(port, host),
    )
