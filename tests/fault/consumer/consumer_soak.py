"""Consumers that come, go, are killed at every step and stopped, and every row compared afterwards.

    python -m tools.soak consumer [--rows N] [--protocol eager|cooperative|consumer] [--keeps-state]

It uses the stack that SEAMARK_DEVSTACK names, or starts one, and prints one line of JSON. The exit code is 1 if a row
is missing or doubled, if the ledger does not say what was written, or if a fault was not done. With `--keeps-state`,
consumers keep an aggregate in memory and flush it when a partition is revoked: it must equal the records.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from uuid import uuid4

import psycopg
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from seamark.devstack import StackSpec, load_stack, start_stack
from tests.fault.consumer.consumer_worker import KEYS, STATE_STEPS, STEPS

PARTITIONS = 6
PROTOCOLS = {
    "eager": {"partition.assignment.strategy": "range"},
    "cooperative": {"partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
}
# With this protocol the group decides, not its members. By default the partitions of a killed member stay with it for
# 45 s; with a kill every few seconds, the dead would hold most of them.
GROUP_CONFIG = {"consumer.session.timeout.ms": "6000", "consumer.heartbeat.interval.ms": "1000"}
# A member is given up after six seconds without a poll, and so is a transaction that does nothing.
POLL_SECONDS = IDLE_SECONDS = 6
STOPPED_SECONDS = POLL_SECONDS + 3
END_SECONDS = 60
EVERY_SECONDS = 3
# A member with one partition is never revoked while there are enough for all.
CALLBACK_SECONDS = 15
# More of those that wait for their step than this would leave others without a partition.
MOST_WAITING = 2
PARTS = 20
DEADLINE_SECONDS = 600
VIOLATIONS = ("lost", "doubled", "changed", "ledger_wrong", "not_done")


class Stage:
    def __init__(self, stack, *, protocol, rows, keeps_state=False):
        self.servers, self.dsn = stack.kafka.bootstrap_servers, stack.postgres.dsn
        self.name, self.rows, self.keeps_state = f"soak_{uuid4().hex[:8]}", rows, keeps_state
        self.config = {
            "bootstrap.servers": self.servers,
            "group.id": self.name,
            "auto.offset.reset": "earliest",
            "max.poll.interval.ms": POLL_SECONDS * 1000,
            **PROTOCOLS[protocol],
        }
        if protocol != "consumer":
            self.config["session.timeout.ms"] = POLL_SECONDS * 1000
        self.admin = AdminClient({"bootstrap.servers": self.servers})
        self.doomed, self.stopped = {}, {}
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the processes write to it
        self.producer, self.fed = Producer({"bootstrap.servers": self.servers, "linger.ms": 50}), 0
        self.workers, self.counts = [], {"killed": 0, "stopped": 0, "started": 0, "ended": 0, "at_step": 0}

    def prepare(self):
        self.admin.create_topics([NewTopic(self.name, PARTITIONS, 1)])[self.name].result(30)
        if "group.protocol" in self.config:
            entries = [
                ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
                for key, value in GROUP_CONFIG.items()
            ]
            resource = ConfigResource(ResourceType.GROUP, self.name, incremental_configs=entries)
            self.admin.incremental_alter_configs([resource])[resource].result(30)
        with psycopg.connect(self.dsn) as database:
            columns = "partition_number int, place bigint, number bigint"
            if self.keeps_state:
                columns = "partition_number int, key int, count int, total numeric, PRIMARY KEY (partition_number, key)"
            database.execute(f"CREATE TABLE {self.name} ({columns})")

    def feed(self, *, is_waiting):
        """The next part of the records, so that there are some for every fault."""
        if self.fed >= self.rows and not is_waiting:
            return
        # From three quarters on they come slowly, and beyond the end, until every fault has found its step.
        is_slow = is_waiting and self.fed > self.rows * 3 // 4
        last = self.fed + self.rows // (PARTS * 20 if is_slow else PARTS)
        if not is_waiting:
            last = min(last, self.rows)
        for number in range(self.fed, last):
            self.producer.produce(self.name, value=str(number).encode(), partition=number % PARTITIONS)
        assert self.producer.flush(60) == 0
        self.fed = last

    def start(self, *fault):
        given = {"config": self.config, "dsn": self.dsn, "topic": self.name, "table": self.name, "idle": IDLE_SECONDS}
        # Some hundred transactions for the whole topic: enough that a fault finds one.
        given |= {"count": max(20, self.rows // 1000), "fault": fault}
        given |= {"keeps_state": self.keeps_state}
        command = [sys.executable, "-m", "tests.fault.consumer.consumer_worker"]
        worker = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=self.log, text=True)
        # Not as an argument: it has a password.
        print(json.dumps(given), file=worker.stdin, flush=True)
        worker.stdin.close()
        self.workers.append(worker)
        if fault:
            self.doomed[worker] = (fault, time.monotonic())
        self.counts["started"] += 1

    def end(self, worker, signal_number):
        worker.send_signal(signal_number)
        deadline = time.monotonic() + END_SECONDS
        while worker.poll() is None:
            if time.monotonic() > deadline:
                worker.send_signal(signal.SIGUSR1)
                time.sleep(1)
                raise AssertionError(
                    f"a consumer did not end within {END_SECONDS} s; where it is:\n{self.read_log()[-4000:].decode()}"
                )
            # It may wait for rows that a stopped one has written and not committed.
            self.go_on()
            time.sleep(0.1)
        self.workers.remove(worker)
        self.counts["killed" if signal_number == signal.SIGKILL else "ended"] += 1

    def find_stopped(self):
        """Record those that have stopped themselves."""
        for worker in self.workers:
            if worker not in self.stopped and is_stopped(worker):
                self.stopped[worker] = time.monotonic()
                self.counts["stopped"] += 1
                self.counts["at_step"] += 1

    def go_on(self):
        """Continue those that were stopped for longer than their poll interval, and than PostgreSQL lets them idle."""
        for worker, since in list(self.stopped.items()):
            if time.monotonic() - since > STOPPED_SECONDS:
                worker.send_signal(signal.SIGCONT)
                del self.stopped[worker]
                self.doomed.pop(worker)

    def collect(self):
        """Take note of those that ended or stopped themselves. Gives the faults that must be tried again."""
        again = []
        for worker in list(self.workers):
            if worker.poll() in {0, -signal.SIGTERM}:
                # It was told to end, so that it comes by its step; if it still waits for it, it had no partition, or
                # had not begun.
                self.workers.remove(worker)
                self.counts["ended"] += 1
                again += [self.doomed.pop(worker)[0]] if worker in self.doomed else []
            elif worker.poll() is not None:
                self.doomed.pop(worker, None)
                assert worker.returncode == -signal.SIGKILL, (
                    worker.returncode,
                    self.read_log()[-4000:].decode(),
                )
                self.workers.remove(worker)
                self.counts["killed"] += 1
                self.counts["at_step"] += 1
        return again

    def end_waiting(self):
        """End those whose step in a callback has not come: closing revokes too."""
        for worker, ((step, *_), since) in self.doomed.items():
            is_due = time.monotonic() - since > CALLBACK_SECONDS and step not in STEPS
            if is_due and worker not in self.stopped and worker.poll() is None:
                worker.send_signal(signal.SIGTERM)

    def is_going(self, all_faults):
        """Whether faults are left to be done, or records to be written."""
        is_done = self.counts["at_step"] >= all_faults and not self.stopped
        return not is_done or self.fed < self.rows or self.count_rows() < self.fed

    def count_rows(self):
        with psycopg.connect(self.dsn) as database:
            what = "coalesce(sum(count), 0)" if self.keeps_state else "count(*)"
            return int(database.execute(f"SELECT {what} FROM {self.name}").fetchone()[0])

    def check(self):
        return {**(self.check_state() if self.keeps_state else self.check_rows()), "ledger_wrong": self.check_ledger()}

    def check_state(self):
        """Compare the aggregate of each partition and key with the records."""
        expected = {}
        for number in range(self.fed):
            sums = expected.setdefault((number % PARTITIONS, number % KEYS), [0, 0])
            sums[0] += 1
            sums[1] += number
        with psycopg.connect(self.dsn) as database:
            rows = database.execute(f"SELECT partition_number, key, count, total FROM {self.name}").fetchall()
        found = {(partition, key): [count, int(total)] for partition, key, count, total in rows}
        counts = {key: found.get(key, [0, 0])[0] - sums[0] for key, sums in expected.items()}
        return {
            "lost": -sum(min(0, difference) for difference in counts.values()),
            "doubled": sum(max(0, difference) for difference in counts.values()),
            "changed": sum(found.get(key) != expected.get(key) for key in {*found, *expected}),
        }

    def check_rows(self):
        with psycopg.connect(self.dsn) as database:
            total, distinct, wrong = database.execute(
                f"SELECT count(*), count(DISTINCT number), count(*) FILTER (WHERE number % {PARTITIONS} <> "
                f"partition_number OR number / {PARTITIONS} <> place) FROM {self.name}"
            ).fetchone()
        return {"lost": self.fed - distinct, "doubled": total - distinct, "changed": wrong}

    def check_ledger(self):
        with psycopg.connect(self.dsn) as database:
            ledger = database.execute(
                "SELECT partition_number, next_offset FROM seamark_ledger WHERE owner = %s", [self.name]
            ).fetchall()
        ends = {number: len(range(number, self.fed, PARTITIONS)) for number in range(PARTITIONS)}
        return sum(ends[number] != at for number, at in ledger) + PARTITIONS - len(ledger)

    def count_fenced(self):
        """How often somebody was too late."""
        return self.read_log().count(b"fenced: ")

    def read_log(self):
        return os.pread(self.log.fileno(), 1 << 24, 0)

    def remove(self):
        for worker in list(self.workers):
            worker.kill()
            worker.wait(60)
        self.log.close()
        with psycopg.connect(self.dsn) as database:
            database.execute(f"DROP TABLE IF EXISTS {self.name}")
        self.admin.delete_topics([self.name])[self.name].result(30)


def is_stopped(worker):
    return Path(f"/proc/{worker.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0] == "T"


def soak(stack, *, protocol, rows, seed=0, keeps_state=False):
    """Faults at every step, once by a kill and once by a stop, and comings and goings. Gives the counts."""
    choose, steps = random.Random(seed), STATE_STEPS if keeps_state else STEPS
    faults = [
        (step, choose.randint(1, 3) if step in STEPS else 1, name) for step in steps for name in ("SIGKILL", "SIGSTOP")
    ]
    all_faults = len(faults)
    choose.shuffle(faults)
    stage, began_at = Stage(stack, protocol=protocol, rows=rows, keeps_state=keeps_state), time.monotonic()
    stage.prepare()
    try:
        stage.start()
        while stage.is_going(all_faults):
            stage.feed(is_waiting=stage.counts["at_step"] < all_faults)
            assert time.monotonic() - began_at < DEADLINE_SECONDS, f"{stage.count_rows()} rows, {faults} left"
            waiting = [worker for worker in stage.doomed if worker not in stage.stopped]
            if faults and (len(waiting) < MOST_WAITING or not keeps_state):
                stage.start(*faults.pop())
            else:
                stage.start()
            time.sleep(EVERY_SECONDS)
            stage.end_waiting()
            faults += stage.collect()
            stage.find_stopped()
            stage.go_on()
            # Those that are to fail at a step are left alone until they have.
            going = [worker for worker in stage.workers if worker not in stage.stopped and worker not in stage.doomed]
            if len(going) > 2:
                stage.end(choose.choice(going), choose.choice([signal.SIGTERM, signal.SIGKILL]))
        for worker in list(stage.workers):
            stage.end(worker, signal.SIGTERM)
        found = stage.check()
        stage.counts["fenced"] = stage.count_fenced()
    finally:
        stage.remove()
    seconds = round(time.monotonic() - began_at)
    not_done = all_faults - stage.counts["at_step"]
    return {"protocol": protocol, "rows": stage.fed, "seconds": seconds, **stage.counts, **found, "not_done": not_done}


def main():
    parser = argparse.ArgumentParser(prog="python -m tools.soak consumer")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--protocol", choices=PROTOCOLS, default="cooperative")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--keeps-state", action="store_true", help="keep an aggregate in memory")
    given = parser.parse_args()
    how = {"protocol": given.protocol, "rows": given.rows, "seed": given.seed, "keeps_state": given.keeps_state}
    file = os.environ.get("SEAMARK_DEVSTACK")
    if file:
        found = soak(load_stack(Path(file)), **how)
    else:
        with start_stack(StackSpec(brokers=1, workers=0, postgres=True), name="consumers") as stack:
            found = soak(stack, **how)
    print(json.dumps({"seed": given.seed, **found}))
    return 1 if any(found[name] for name in VIOLATIONS) else 0


if __name__ == "__main__":
    sys.exit(main())
