"""Takes a topic over into a table of PostgreSQL, each record once, with the offsets in the same transaction.

    python -m seamark.devstack up --name exact --workers 0 --postgres
    eval "$(python -m seamark.devstack env --name exact)"
    seamark init --yes
    seamark topics create orders --partitions 6 --yes
    python examples/shrink/fill.py orders 200000
    python examples/exact_consumer.py orders

Start it twice, kill one with SIGKILL, and start it again: the table `landed` has each record once. It writes
to a database of yours if the environment variable EXACT_DSN has its DSN: arguments are seen by everybody.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

import psycopg

import seamark
from seamark.consumer import ExactConsumer
from seamark.devstack import load_stack


def main(topic: str) -> None:
    """Run until Ctrl-C."""
    dsn = os.environ.get("EXACT_DSN") or find_dsn()
    brokers = seamark.open().context.kafka.client_config()
    config = {**brokers, "group.id": "exact-example", "auto.offset.reset": "earliest"}
    database = psycopg.connect(dsn)
    with database.transaction():
        database.execute("CREATE TABLE IF NOT EXISTS landed (place text, key bytea, value bytea)")
    with ExactConsumer(config, connect=lambda: psycopg.connect(dsn)) as consumer:
        consumer.subscribe([topic])
        for records in consumer.batches(1000):
            with database.transaction(), database.cursor() as cursor:
                with cursor.copy("COPY landed FROM STDIN") as rows:
                    for one in records:
                        rows.write_row((f"{one.topic()}-{one.partition()}@{one.offset()}", one.key(), one.value()))
                consumer.save(database)
            last = records[-1]
            print(f"{len(records)} records, up to {last.topic()}-{last.partition()}@{last.offset()}")


def find_dsn() -> str:
    """The database of the stack that `devstack env` names."""
    found = load_stack(Path(os.environ["SEAMARK_DEVSTACK"])).postgres
    if found is None:
        sys.exit("the stack has no PostgreSQL: start it with --postgres, or give a DSN in EXACT_DSN")
    return found.dsn


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main(*sys.argv[1:])
