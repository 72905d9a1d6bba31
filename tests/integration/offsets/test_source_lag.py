"""`seamark lag --sources`: what sources have not read, counted in their database."""

from __future__ import annotations

import io
import json

import pytest

import seamark
from seamark.cli.main import execute
from seamark.cli.session import Session
from seamark.context import open_context
from tests.integration.meaning_stage import Stage
from tests.integration.waits import wait_for

ROWS, NEW = 40, 7


@pytest.fixture
def stage(stack):
    made = Stage(stack)
    yield made
    made.close()


@pytest.fixture
def read_lag(stack, stage, tmp_path):
    """The command, with a context that names the database or does not."""

    def read(*, named):
        endpoint = stack.connect["connect"]
        context = {
            "journal": "file",
            "kafka": {"bootstrap.servers": stack.kafka.bootstrap_servers},
            "connect": {"connect": {"urls": list(endpoint.urls), "worker_config": endpoint.worker_config}},
        }
        if named:
            context["databases"] = {"shop": {"jdbc_url": stage.jdbc["connection.url"], "dsn": "secret://env/SHOP_DSN"}}
        (tmp_path / "seamark.yaml").write_text(json.dumps({"current": "dev", "contexts": {"dev": context}}))
        environ = {"SEAMARK_CONFIG": str(tmp_path / "seamark.yaml"), "SHOP_DSN": stack.postgres.dsn}
        out, err = io.StringIO(), io.StringIO()
        fleet = seamark.Fleet(open_context(environ=environ))
        session = Session(out=out, err=err, open_fleet=lambda _: fleet)
        # Other tests of the run may have left offsets whose databases are not this one.
        assert execute(["lag", "--sources", "-o", "json"], session=session) in (0, 3), err.getvalue()
        assert stack.postgres.password not in out.getvalue()
        return {found["owner"]: found for found in json.loads(out.getvalue())["items"]}

    return read


def test_rows_that_a_source_has_not_read_are_counted_in_its_database(stage, read_lag):
    table = f"{stage.run}_lag"
    stage.tables.append(table)
    stage.database.execute(f"CREATE TABLE {table} (seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text)")
    insert = f"INSERT INTO {table} (name) SELECT 'n' || n FROM generate_series(1, %s::int) AS n"
    stage.database.execute(insert, [ROWS])
    config = {
        "connector.class": "io.aiven.connect.jdbc.JdbcSourceConnector",
        **stage.jdbc,
        "poll.interval.ms": "200",
        "topic.prefix": stage.run,
        "table.whitelist": table,
        "mode": "incrementing",
        "incrementing.column.name": "seq",
    }
    name, _ = stage.create("lag", config)
    stage.await_offset(name, lambda offset: offset.get("incrementing") == ROWS, "the offset of all rows")
    stage.stop(name)
    stage.database.execute(insert, [NEW])

    # In a neighbour's rebalance it shows UNASSIGNED for a moment.
    found = wait_for(
        lambda: read_lag(named=True).get(f"connect/{name}", {}),
        lambda told: told.get("state") == "STOPPED",
        f"{name} to be told as stopped",
    )
    assert (found["behind"], found["unit"], found["certainty"], found["state"]) == (NEW, "rows", "exact", "STOPPED")
    assert table in found["worst"]

    found = read_lag(named=False)[f"connect/{name}"]
    assert (found["behind"], found["certainty"]) == (None, "unknown")
    assert "has no database" in found["reason"]
