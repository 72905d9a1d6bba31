"""How long a record takes from its producer to a row that can be read: `python -m bench.lands.freshness < ORDER`.

A program of its own, so that it doesn't wait for the Python process that drives the pipeline. It produces records at a
steady rate, reads the table again and again, and writes the delays as JSON. A row counts as readable when the query
that found it has returned.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import psycopg
from confluent_kafka import Producer

from bench.harness.definition import BenchError
from bench.harness.record import ROOT
from bench.lands.rows import PARTITIONS, build_value

# Ids of one partition are this far from those of the next, so that the primary key finds the last row of each.
SPAN = 1_000_000
_POLL_SECONDS = 0.01
_START_SECONDS, _END_SECONDS = 180.0, 120.0


@dataclass(frozen=True, slots=True)
class Order:
    """What is measured: `rate` records a second for `seconds`, after `warm_seconds` that don't count."""

    servers: str
    topic: str
    dsn: str
    table: str
    rate: int = 500
    seconds: float = 20.0
    warm_seconds: float = 5.0

    @property
    def warm(self) -> int:
        """How many records don't count. One for each partition comes before all others."""
        return PARTITIONS + int(self.rate * self.warm_seconds)

    @property
    def records(self) -> int:
        """How many records are produced."""
        return self.warm + int(self.rate * self.seconds)


@dataclass(frozen=True, slots=True)
class Freshness:
    """The delays in seconds that half of the records, and 99 of 100, don't exceed."""

    p50: float
    p99: float


def build_id(number: int) -> int:
    """Return the id of the row of a record; records take turns among the partitions."""
    return number % PARTITIONS * SPAN + number // PARTITIONS


def build_percentile(values: Sequence[float], percent: int) -> float:
    """Return the lowest value that is not exceeded by so many of 100 values."""
    if not values:
        raise ValueError("a percentile of no values")
    return sorted(values)[-(-len(values) * percent // 100) - 1]


class Delays:
    """When each record was produced, and when its row was first seen."""

    def __init__(self) -> None:
        self._sent: list[float] = []
        self._seen: dict[int, float] = {}
        self._next = list(range(PARTITIONS))

    def send(self, at: float) -> int:
        """Note that the next record is produced, and return its number."""
        self._sent.append(at)
        return len(self._sent) - 1

    def see(self, partition: int, last_id: int, at: float) -> None:
        """Note the last row of a partition. The rows before it are readable too: a partition is landed in order."""
        while build_id(self._next[partition]) <= last_id:
            self._seen[self._next[partition]] = at
            self._next[partition] += PARTITIONS

    def count_seen(self) -> int:
        """Return how many rows were seen."""
        return len(self._seen)

    def build_freshness(self, *, warm: int) -> Freshness:
        """Build the percentiles of all records but the first ones."""
        delays = [self._seen[number] - self._sent[number] for number in range(warm, len(self._sent))]
        return Freshness(build_percentile(delays, 50), build_percentile(delays, 99))


def measure_freshness(order: Order) -> Freshness:
    """Run this module as a program, and read what it writes."""
    # By its input: a command line can be read by all users, and the DSN has a password.
    done = subprocess.run(
        [sys.executable, "-m", "bench.lands.freshness"],
        input=json.dumps(asdict(order)),
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    if done.returncode:
        raise BenchError(f"freshness could not be measured: {done.stderr[-500:]}")
    return Freshness(**json.loads(done.stdout))


def _produce(order: Order, delays: Delays, *, records: int) -> None:
    # Without a wait for more records, and with the brokers' answer before a record counts as written.
    settings = {"bootstrap.servers": order.servers, "acks": "all", "linger.ms": 0}
    producer = Producer({**settings, "delivery.report.only.error": True, "on_delivery": _check_written})
    began = time.monotonic()
    for place in range(records):
        if (pause := began + place / order.rate - time.monotonic()) > 0:
            time.sleep(pause)
        number = delays.send(time.monotonic())
        id_ = build_id(number)
        producer.produce(order.topic, key=str(id_), value=build_value(id_), partition=number % PARTITIONS)
        producer.poll(0)
    if producer.flush(_END_SECONDS):
        raise SystemExit("the brokers didn't take all records")


def _check_written(error: object, _: object) -> None:
    if error is not None:
        raise SystemExit(f"the brokers refused a record: {error}")


def _wait_for_rows(order: Order, delays: Delays, *, rows: int, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    for partition, last_id in _read_last_ids(order):
        if last_id is not None:
            delays.see(partition, last_id, time.monotonic())
        if delays.count_seen() >= rows:
            return
        if time.monotonic() > deadline:
            raise SystemExit(f"{delays.count_seen()} of {rows} rows were readable after {seconds:g} s")


def _read_last_ids(order: Order) -> Iterator[tuple[int, int | None]]:
    query = (
        f"SELECT p, (SELECT max(id) FROM {order.table} WHERE id >= p * {SPAN} AND id < (p + 1) * {SPAN}) "  # noqa: S608
        f"FROM generate_series(0, {PARTITIONS - 1}) p"
    )
    with psycopg.connect(order.dsn, autocommit=True) as connection:
        while True:
            yield from connection.execute(query).fetchall()
            time.sleep(_POLL_SECONDS)


def main() -> None:
    """Produce one record for each partition, wait for their rows, and then measure."""
    order, delays = Order(**json.load(sys.stdin)), Delays()
    _produce(order, delays, records=PARTITIONS)
    _wait_for_rows(order, delays, rows=PARTITIONS, seconds=_START_SECONDS)
    left = {"records": order.records - PARTITIONS}
    produce = threading.Thread(target=_produce, args=(order, delays), kwargs=left, daemon=True)
    produce.start()
    seconds = order.warm_seconds + order.seconds + _END_SECONDS
    _wait_for_rows(order, delays, rows=order.records, seconds=seconds)
    produce.join()
    print(json.dumps(asdict(delays.build_freshness(warm=order.warm))))


if __name__ == "__main__":
    main()
