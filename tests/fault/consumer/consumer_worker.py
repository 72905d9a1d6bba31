"""A process that takes a topic over into a table, for tests that kill it.

    python -m tests.fault.consumer.consumer_worker < SETTINGS

SETTINGS are a line of JSON: config, dsn, topic, table, idle, and perhaps `fault`: at which step, the how manieth time,
by which signal it ends or stops itself. With `keeps_state`, it doesn't write rows: it keeps an aggregate in memory,
restores it in on_assign, and writes it every few batches and in on_revoke.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys

import psycopg

from seamark.consumer import ExactConsumer
from seamark.errors import FencedError

STEPS = ("consumed", "written", "saved", "committed")
# Beside these, steps within the callbacks: state read, before and after it is written, and after the commit.
STATE_STEPS = (*STEPS, "restored", "revoked", "flushed", "released")
KEYS = 7


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
    faulthandler.register(signal.SIGUSR1)
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    open_database = lambda: psycopg.connect(given["dsn"])  # noqa: E731
    if given.get("keeps_state"):
        keep_state(given, faults, open_database, ended)
        return
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


class Aggregate:
    """Count and sum of numbers by partition and key: in memory, with absolute values in the database."""

    def __init__(self, table, open_database, faults):
        self.table, self.open_database, self.faults = table, open_database, faults
        self.connection, self.state = open_database(), {}

    def add(self, records):
        for one in records:
            number = int(one.value())
            sums = self.state[one.topic(), one.partition()].setdefault(number % KEYS, [0, 0])
            sums[0] += 1
            sums[1] += number

    def restore(self, consumer, partitions):
        read = f"SELECT key, count, total FROM {self.table} WHERE partition_number = %s"
        for spot in partitions:
            with self.connection.transaction():
                rows = self.connection.execute(read, [spot[1]]).fetchall()
            assert spot not in self.state, f"{spot} is assigned twice"
            self.state[spot] = {key: [count, int(total)] for key, count, total in rows}
            counted = sum(count for count, _ in self.state[spot].values())
            # Offsets begin at 0 without gaps: what was flushed is what was saved, whoever had the partition before.
            assert counted == consumer.position(spot), f"order violated: {spot} {counted} {consumer.position(spot)}"
        self.faults.at("restored")

    def revoke(self, consumer, partitions):
        self.faults.at("revoked")
        self.try_flush(consumer, partitions, step="flushed")
        self.discard(consumer, partitions)
        self.faults.at("released")

    def discard(self, consumer, partitions):
        for spot in partitions:
            del self.state[spot]

    def try_flush(self, consumer, partitions, *, step):
        try:
            with self.connection.transaction():
                self.write(partitions)
                self.faults.at(step)
                consumer.save(self.connection, partitions)
                if step == "written":
                    self.faults.at("saved")
        except FencedError as error:
            print(f"fenced: {error}", file=sys.stderr, flush=True)
        except psycopg.Error as error:
            print(f"database: {error}", file=sys.stderr, flush=True)
            self.connection.close()
            self.connection = self.open_database()

    def write(self, partitions):
        rows = [(spot[1], key, count, total) for spot in partitions for key, (count, total) in self.state[spot].items()]
        with self.connection.cursor() as cursor:
            cursor.executemany(
                f"INSERT INTO {self.table} VALUES (%s, %s, %s, %s) ON CONFLICT (partition_number, key) "
                "DO UPDATE SET count = EXCLUDED.count, total = EXCLUDED.total",
                rows,
            )


def keep_state(given, faults, open_database, ended):
    aggregate, batches = Aggregate(given["table"], open_database, faults), 0
    with ExactConsumer(given["config"], connect=open_database, idle_seconds=given["idle"]) as consumer:
        consumer.subscribe(
            [given["topic"]],
            on_assign=aggregate.restore,
            on_revoke=aggregate.revoke,
            on_lost=aggregate.discard,
            keeps_state=True,
        )
        while not ended:
            records = consumer.consume(given["count"], 0.5)
            aggregate.add(records)
            faults.at("consumed") if records else None
            batches += bool(records)
            # Seldom, so that much is unsaved whenever a partition is revoked; and when there is nothing to do.
            if not records or batches % 5 == 0:
                aggregate.try_flush(consumer, list(aggregate.state), step="written")
                faults.at("committed")
    aggregate.connection.close()


if __name__ == "__main__":
    main()
