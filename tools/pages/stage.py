"""The servers, the context and the environment in which a page is run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from seamark.devstack import Stack, StackSpec, start_stack
from seamark.devstack.seed import run_sql, seed_stack
from tools.pages.blocks import ROOT, Page, PageError
from tools.pages.runner import Runner
from tools.pages.session import Session

SETUPS = Path(__file__).parent / "setups"
# The name of the Connect cluster in all pages.
CLUSTER = "game"
# The name of a second one, with workers of another version.
OTHER_CLUSTER = "old"
# The field of `StackSpec` that is a list.
VERSIONS = "connect_versions"
# Create the small fleet of `devstack seed`.
SEED = "seed"
# The database in all pages, beside the one that the server creates.
DATABASE = "game"


def build_spec(servers: str) -> StackSpec | None:
    """Return the servers that a page names: `none`, or words such as `postgres workers=2 connect_versions=4.3.1,3.4.1`.

    Raises:
        PageError: A word names no server.
    """
    words = servers.split()
    if words == ["none"]:
        return None
    fields: dict[str, Any] = {}
    for word in words:
        name, _, count = word.partition("=")
        if name == SEED:
            continue
        if name == VERSIONS and count:
            fields[name] = tuple(count.split(","))
        elif name in StackSpec.__dataclass_fields__ and name != VERSIONS and (count.isdigit() or not count):
            fields[name] = int(count) if count else True
        else:
            raise PageError(f"unknown server {word!r} in 'run: servers'")
    return StackSpec(**fields)


@contextmanager
def open_runner(page: Page, say: Callable[[str], None] = print) -> Iterator[Runner]:
    """Start what a page needs in a folder of its own, and remove both afterwards."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="seamark-page-")))
        work = folder / "work"
        work.mkdir()
        spec = build_spec(page.servers or "none")
        servers = stack.enter_context(start_stack(spec, name="pages")) if spec else None
        environ = build_environment(folder, servers, context=page.context)
        if servers and SEED in (page.servers or "").split():
            seed_stack(servers, rows=1000, say=say)
        if servers and page.context == "dev":
            (folder / "seamark.yaml").write_text(json.dumps(build_contexts(servers)), encoding="utf-8")
        if servers and servers.postgres:
            run_sql(servers.postgres, f"CREATE DATABASE {DATABASE}")
        session = stack.enter_context(Session(work, environ))
        stack.callback(stop_stacks, folder, environ)
        runner = Runner(page, session, say)
        if servers and page.context == "dev":
            runner.session.run("seamark init --yes")
        yield runner


def stop_stacks(folder: Path, environ: dict[str, str]) -> None:
    """Stop the servers that commands of the page have started and left."""
    for file in (folder / "state").rglob("*.json"):
        command = [sys.executable, "-m", "seamark.devstack", "down", "--file", str(file)]
        subprocess.run(command, env=environ, capture_output=True, check=False)


def build_environment(folder: Path, stack: Stack | None, *, context: str) -> dict[str, str]:
    """Return the variables of the session: the caller's without seamark's own, and the addresses of the servers."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("SEAMARK_", "PYTEST_"))}
    environ |= {
        "PATH": f"{Path(sys.executable).parent}:{environ['PATH']}",
        "XDG_STATE_HOME": str(folder / "state"),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "NO_COLOR": "1",
        "COLUMNS": "240",
        "PYTHONUNBUFFERED": "1",
        "CHECKOUT": str(ROOT),
        "PAGES_SETUPS": str(SETUPS),
    }
    for kept in ("SEAMARK_PLUGINS", "SEAMARK_CACHE"):
        if kept in os.environ:
            environ[kept] = os.environ[kept]
    if stack is None:
        return environ
    environ |= {"STACK": stack.folder, "BOOTSTRAP": stack.kafka.bootstrap_servers, "KAFKA_LIBS": stack.kafka.libs}
    if context != "none":
        environ["SEAMARK_CONFIG"] = stack.context_file if context == "devstack" else str(folder / "seamark.yaml")
    if "connect" in stack.connect:
        connect = stack.connect["connect"]
        environ |= {
            "CONNECT_URL": connect.urls[0],
            "CONNECT_2_URL": connect.urls[-1],
            "WORKER_CONFIG": connect.worker_config,
        }
    if others := [cluster for name, cluster in stack.connect.items() if name != "connect"]:
        environ["CONNECT_OLD_URL"] = others[0].urls[0]
    if stack.postgres:
        database = stack.postgres
        environ |= {
            "PGHOST": database.host,
            "PGPORT": str(database.port),
            "PGUSER": database.user,
            "PGPASSWORD": database.password,
            "PGDATABASE": DATABASE,
        }
    if stack.s3:
        environ |= {"S3_ENDPOINT": stack.s3.endpoint, "S3_DATA": stack.s3.data, "S3_REGION": stack.s3.region}
    if stack.spark:
        environ |= {"SEAMARK_SPARK_MASTER": stack.spark.master, "SEAMARK_SPARK_JARS": stack.spark.jars}
    return environ


def build_contexts(stack: Stack) -> dict[str, object]:
    """Return the contexts file: one context `dev` with the Connect cluster `game`, a database and a lake."""
    context: dict[str, object] = {
        "kafka": {"bootstrap.servers": stack.kafka.bootstrap_servers},
        # With a short timeout, a rebalance of a few seconds ends a command.
        "in_flight_timeout": "90s",
        "policy": {"files": ["/**"], "provider_paths": ["default", f"{stack.folder}/secrets/**"]},
    }
    if stack.connect:
        # The names that the stack has are those of its processes, which no page shows.
        named = zip((CLUSTER, OTHER_CLUSTER), stack.connect.values(), strict=False)
        context["connect"] = {name: {"urls": list(one.urls), "worker_config": one.worker_config} for name, one in named}
    if stack.postgres:
        place = f"{stack.postgres.host}:{stack.postgres.port}/{DATABASE}"
        dsn = f"{stack.postgres.dsn} dbname={DATABASE}"
        context["databases"] = {DATABASE: {"jdbc_url": f"jdbc:postgresql://{place}", "dsn": dsn}}
    if stack.s3:
        keys = f"secret://file/{stack.folder}/secrets/s3.properties"
        context["lakes"] = {
            "lake": {
                "url": "s3://lake/tables",
                "endpoint": stack.s3.endpoint,
                "access_key": f"{keys}#access_key",
                "secret_key": f"{keys}#secret_key",
            }
        }
    return {"current": "dev", "contexts": {"dev": context}}
