"""A Connect cluster that is not one: for sizes and faults that a real one can't be brought to.

    with FakeConnect(workers=2) as fake:
        fake.fill(10_000)
        fake.faults.add(match="GET /connectors/*/status", times=3, do=Answer(409, texts.STALE))
        client = ConnectClient(fake.urls)

The contract tests run the same cases against it and against real clusters, so it can't tell fairy tales.
"""

from __future__ import annotations

from tests.fakes.connect import texts
from tests.fakes.connect.faults import Answer, Change, Delay, Drop, Fault, Faults, Page, Raw, Redirect
from tests.fakes.connect.plugins import FILE_SINK, FILE_SOURCE, JDBC_SOURCE, S3_SINK, PluginSpec
from tests.fakes.connect.server import FakeConnect

__all__ = [
    "FILE_SINK",
    "FILE_SOURCE",
    "JDBC_SOURCE",
    "S3_SINK",
    "Answer",
    "Change",
    "Delay",
    "Drop",
    "FakeConnect",
    "Fault",
    "Faults",
    "Page",
    "PluginSpec",
    "Raw",
    "Redirect",
    "texts",
]
