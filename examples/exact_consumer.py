"""Takes a topic over into a table of PostgreSQL, each record once, with the offsets in the same transaction.

    python -m seamark.devstack up --name exact --workers 0 --postgres
    eval "$(python -m seamark.devstack env --name exact)"
    python examples/exact_consumer.py DSN orders

Start it twice, kill one with SIGKILL, and start it again: the table has each record once.
"""

from __future__ import annotations

import contextlib
import sys

import psycopg

import seamark
from seamark.consumer import ExactConsumer


def main(dsn: str, topic: str) -> None:
    """Run until Ctrl-C."""
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


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main(*sys.argv[1:])
