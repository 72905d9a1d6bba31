"""The contexts file of the demo: the stack's servers, and what connectors may name on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seamark.devstack import Stack

CONTEXT_FILE = "seamark.yaml"


def build_context(stack: Stack, folder: Path) -> str:
    """The file's text."""
    connect = stack.connect["connect"]
    return f"""\
# The context of the demo. It goes with its servers.
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
      # Files of the worker's machine are closed to connectors, but for these.
      files: {json.dumps([f"{folder}/**"])}
      provider_paths: {json.dumps(["default", f"{stack.folder}/secrets/**"])}
{_build_databases(stack)}{_build_lakes(stack)}"""


def _build_databases(stack: Stack) -> str:
    """Where rows are counted. The password is in the environment of the demo's commands, as psql reads it."""
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
    """Where topics are landed as tables. Its keys stay in the stack's folder."""
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
