"""Create a small example fleet: a table, a JDBC source for it, a topic, an S3 sink after it.

If the JDBC and S3 connectors are not available, files replace the table and the bucket. A connector that exists keeps
its config, so that a second call only adds rows.
"""

from __future__ import annotations

import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from seamark.devstack.process import wait_until
from seamark.devstack.stack import PostgresEndpoint, Stack
from seamark.errors import DevstackError

BUCKET = "lake"
TOPIC = "game-purchase"

_TABLE = """
CREATE TABLE IF NOT EXISTS purchase (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  player text NOT NULL,
  item text NOT NULL,
  price integer NOT NULL,
  logged_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO purchase (player, item, price)
SELECT 'player-' || (n % 97), 'item-' || (n % 13), 1 + n % 500 FROM generate_series(1, {rows}) AS n;
"""


def seed_stack(stack: Stack, *, rows: int, say: Callable[[str], None]) -> None:
    """Add rows to the table, create the connectors that don't exist, and wait until their tasks run."""
    if "connect" not in stack.connect:
        raise DevstackError(
            "the stack has no Connect worker to seed",
            hint="start one with workers: python -m seamark.devstack up --workers 1",
        )
    connect = stack.connect["connect"]
    if stack.postgres and "jdbc" in connect.plugins:
        run_sql(stack.postgres, _TABLE.format(rows=rows))
        say(f"table purchase has {rows} more rows")
        _put(stack, "log-purchase", _jdbc_source(stack, stack.postgres))
    else:
        lines = Path(stack.folder) / "purchase.txt"
        with lines.open("a") as file:
            file.writelines(f"player-{n % 97} bought item-{n % 13}\n" for n in range(rows))
        say(f"{lines.name} has {rows} more lines: without the JDBC connector, a file replaces the table")
        _put(stack, "log-purchase", _file_source(lines))
    if stack.s3 and "s3" in connect.plugins:
        (Path(stack.s3.data) / BUCKET).mkdir(exist_ok=True)
        _put(stack, "lake-purchase", _s3_sink(stack))
    else:
        say("without the S3 connector, a file replaces the bucket")
        _put(stack, "lake-purchase", _file_sink(Path(stack.folder) / "lake.txt"))
    for name in ("log-purchase", "lake-purchase"):
        seconds = wait_until(lambda name=name: _runs(stack, name), f"{name} and its tasks ran", seconds=60)  # type: ignore[misc]
        say(f"connector {name} is RUNNING after {seconds:.1f} s")


def run_sql(postgres: PostgresEndpoint, sql: str) -> str:
    """Run SQL with psql and return its output."""
    done = subprocess.run(
        ["psql", "-qAt", "-v", "ON_ERROR_STOP=1", "-h", postgres.host, "-p", str(postgres.port)],
        env={
            "PATH": os.environ["PATH"],
            "PGPASSWORD": postgres.password,
            "PGUSER": postgres.user,
            "PGDATABASE": postgres.database,
        },
        input=sql,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode:
        raise DevstackError("the SQL statement failed", cause=done.stderr.strip())
    return done.stdout


def _jdbc_source(stack: Stack, postgres: PostgresEndpoint) -> dict[str, str]:
    # The password stays a reference: Connect's own file provider resolves it inside the worker.
    secret = f"{stack.folder}/secrets/postgres.properties"
    return {
        "connector.class": "io.aiven.connect.jdbc.JdbcSourceConnector",
        "tasks.max": "1",
        "connection.url": f"jdbc:postgresql://{postgres.host}:{postgres.port}/{postgres.database}",
        "connection.user": postgres.user,
        "connection.password": f"${{file:{secret}:password}}",
        "mode": "timestamp+incrementing",
        "incrementing.column.name": "seq",
        "timestamp.column.name": "logged_at",
        "table.whitelist": "purchase",
        "topic.prefix": "game-",
        "poll.interval.ms": "1000",
    }


def _s3_sink(stack: Stack) -> dict[str, str]:
    if stack.s3 is None:
        raise AssertionError
    secret = f"{stack.folder}/secrets/s3.properties"
    return {
        "connector.class": "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
        "tasks.max": "1",
        "topics": TOPIC,
        "aws.access.key.id": f"${{file:{secret}:access_key}}",
        "aws.secret.access.key": f"${{file:{secret}:secret_key}}",
        "aws.s3.bucket.name": BUCKET,
        "aws.s3.endpoint": stack.s3.endpoint,
        "aws.s3.region": stack.s3.region,
        "format.output.type": "jsonl",
        "format.output.fields": "value,offset",
        "file.compression.type": "none",
    }


def _file_source(path: Path) -> dict[str, str]:
    return {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "tasks.max": "1",
        "file": str(path),
        "topic": TOPIC,
    }


def _file_sink(path: Path) -> dict[str, str]:
    return {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "tasks.max": "1",
        "topics": TOPIC,
        "file": str(path),
    }


def _put(stack: Stack, name: str, config: dict[str, str]) -> None:
    # A worker that has just joined answers 409 until its group is stable.
    refusals: list[str] = []

    def accepted() -> bool:
        try:
            if not _exists(stack, name):
                _call(stack, "PUT", f"/connectors/{name}/config", config)
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            if error.code != 409:
                raise DevstackError(f"Connect rejected connector {name}", cause=text[:1000]) from None
            refusals.append(text)
            return False
        return True

    wait_until(accepted, f"Connect accepted connector {name}", seconds=60, every_seconds=0.5)


def _exists(stack: Stack, name: str) -> bool:
    try:
        _call(stack, "GET", f"/connectors/{name}")
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        return False
    return True


def _runs(stack: Stack, name: str) -> bool:
    try:
        status = _call(stack, "GET", f"/connectors/{name}/status")
    except urllib.error.HTTPError:
        return False
    for task in status["tasks"]:
        if task["state"] == "FAILED":
            raise DevstackError(f"a task of {name} failed", cause=task.get("trace", "")[:1500])
    states = [status["connector"]["state"], *(task["state"] for task in status["tasks"])]
    return len(states) > 1 and set(states) == {"RUNNING"}


def _call(stack: Stack, method: str, path: str, body: Any = None) -> Any:
    request = urllib.request.Request(  # noqa: S310 - a worker of our own stack
        stack.connect["connect"].urls[0] + path,
        method=method,
        data=json.dumps(body).encode() if body is not None else None,
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=100) as answer:  # noqa: S310
        return json.load(answer)
