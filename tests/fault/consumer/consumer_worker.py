"""A process that takes a topic over into a table, for tests that kill it.

    python -m tests.fault.consumer.consumer_worker < SETTINGS

SETTINGS are a line of JSON: config, dsn, topic, table, idle, and perhaps `fault`: at which step, the how manieth time,
by which signal it ends or stops itself.
"""

from __future__ import annotations

import json
import os
import signal
import sys

import psycopg

from seamark.consumer import ExactConsumer
from seamark.errors import FencedError

STEPS = ("consumed", "written", "saved", "committed")


class Faults:
    """Ends or stops this process at a step."""

    def __init__(self, step="", times=0, signal_name=""):
        self.step, self.left, self.signal_name = step, times, signal_name

    def at(self, step):
        if step != self.step:
            return
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), getattr(signal, self.signal_name))


def main():
    given = json.loads(sys.stdin.readline())
    faults = Faults(*given.get("fault", ()))
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    open_database = lambda: psycopg.connect(given["dsn"])  # noqa: E731
    connection = open_database()
    with ExactConsumer(given["config"], connect=open_database, idle_seconds=given["idle"]) as consumer:
        consumer.subscribe([given["topic"]])
        while not ended:
            records = consumer.consume(given["count"], 0.5)
            if not records:
                continue
            faults.at("consumed")
            try:
                with connection.transaction():
                    write(connection, given["table"], records)
                    faults.at("written")
                    consumer.save(connection)
                    faults.at("saved")
                faults.at("committed")
            except FencedError as error:
                print(f"fenced: {error}", file=sys.stderr, flush=True)
            except psycopg.Error as error:
                # The database has ended a transaction that was idle for too long.
                print(f"database: {error}", file=sys.stderr, flush=True)
                connection.close()
                connection = open_database()
    connection.close()


def write(connection, table, records):
    with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY {table} (partition_number, place, number) FROM STDIN") as rows,
    ):
        for one in records:
            rows.write_row((one.partition(), one.offset(), int(one.value())))


if __name__ == "__main__":
    main()
