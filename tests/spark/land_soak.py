"""A landing under faults, and every row compared afterwards.

    python -m tests.spark.land_soak [--rows N] [--faults N] [--seed N] [--mode append|upsert]

Executors and drivers are killed, sessions of the database ended, the database and a broker killed and started again,
the landing is started twice, a task is stopped inside its transaction and continued, the checkpoint is deleted, offsets
are moved under a running landing. It uses the stack that SEAMARK_DEVSTACK names, or starts one, and prints one line of
JSON. The exit code is 1 if a row is missing or doubled, the ledger is not at the end, or a fault was not done.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from uuid import uuid4

import psycopg
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from seamark.devstack import StackSpec, load_stack, start_stack
from seamark.devstack.control import ask
from seamark.pipelines.land_column import LandColumn
from seamark.pipelines.landing import Landing, Mode
from tests.spark.driver_stage import WAIT_SECONDS, DriverStage, wait_for

PARTITIONS = 6
SOAK = StackSpec(brokers=3, workers=0, spark=True, spark_workers=2, postgres=True)
FAULTS = (
    "kill_executor",
    "terminate_backend",
    "kill_driver",
    "stop_task",
    "start_twice",
    "restart_postgres",
    "move_offsets",
    "delete_checkpoint",
)
VIOLATIONS = ("lost", "doubled", "changed", "ledger_wrong", "not_done")
# Longer than anybody waits for a session in which nothing happens.
STOP_SECONDS = 25
WAIT_IN_TRANSACTION = 0.3
_SESSIONS = "FROM pg_stat_activity WHERE application_name LIKE 'seamark-land-%%' AND xact_start IS NOT NULL"


class LandStage(DriverStage):
    program = "tests.spark.land_driver"
    # Most faults end the driver, and somebody starts it again.
    most_failures = 1000

    def __init__(self, stack, folder, *, rows, batches, mode, seed):
        super().__init__(stack, folder, seed=seed)
        self.rows, self.dsn, self.name = rows, stack.postgres.dsn, f"soak_{uuid4().hex[:8]}"
        self.batches = batches
        self.admin = AdminClient({"bootstrap.servers": self.servers})
        self.stopped = []
        key = ("part", "place") if mode is Mode.UPSERT else ()
        self.landing = Landing(
            self.name,
            topic=self.name,
            table=self.name,
            columns=(
                LandColumn("part", "int", "kafka.partition"),
                LandColumn("place", "bigint", "kafka.offset"),
                LandColumn("number", "bigint"),
                LandColumn("words", "text"),
            ),
            mode=mode,
            key=key,
        )

    def prepare(self):
        brokers = len(self.servers.split(","))
        configs = {"min.insync.replicas": str(min(2, brokers))}
        made = self.admin.create_topics([NewTopic(self.name, PARTITIONS, min(3, brokers), config=configs)])
        made[self.name].result(30)
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 50, "compression.type": "lz4"})
        for number in range(self.rows):
            value = f'{{"number": {number}, "words": "word {number % 997}"}}'
            while True:
                try:
                    producer.produce(self.name, value=value, partition=number % PARTITIONS)
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(120) == 0
        key = ", PRIMARY KEY (part, place)" if self.landing.mode is Mode.UPSERT else ""
        with psycopg.connect(self.dsn) as connection:
            connection.execute(f"CREATE TABLE {self.name} (part int, place bigint, number bigint, words text{key})")
            # So that there is time for a fault in every transaction.
            connection.execute(
                f"CREATE FUNCTION {self.name}_wait() RETURNS trigger LANGUAGE plpgsql AS "
                f"$$ BEGIN PERFORM pg_sleep({WAIT_IN_TRANSACTION}); RETURN NULL; END $$"
            )
            connection.execute(
                f"CREATE TRIGGER wait AFTER INSERT ON {self.name} FOR EACH STATEMENT "
                f"EXECUTE FUNCTION {self.name}_wait()"
            )

    def build_job(self):
        return {
            "servers": self.servers,
            "url": self.dsn,
            "landing": self.landing.to_dict(),
            "records": max(PARTITIONS * 10, self.rows // self.batches),
        }

    @property
    def done(self):
        """How many records are landed, as the ledger says."""
        return sum(self.read_ledger().values())

    def read_ledger(self):
        found = self.ask(
            "SELECT partition_number, next_offset FROM seamark_ledger WHERE owner = %s", self.landing.owner
        )
        return dict(found)

    def ask(self, text, *values):
        """Rows of the database; none while it is away."""
        try:
            with psycopg.connect(self.dsn, connect_timeout=5) as connection:
                found = connection.execute(text, values)
                return found.fetchall() if found.description else []
        except (psycopg.OperationalError, psycopg.errors.UndefinedTable):
            return []

    def await_transaction(self):
        """Wait until somebody writes. Gives whether the landing goes on."""
        return (
            wait_for(
                lambda: "through" if self.keep_alive() else ("open" if self.ask(f"SELECT 1 {_SESSIONS}") else ""),
                "a task was writing",
                every=0.02,
            )
            == "open"
        )

    def terminate_backend(self):
        self.counts["backends_ended"] += len(self.ask(f"SELECT pg_terminate_backend(pid) {_SESSIONS}"))

    def restart_postgres(self):
        """SIGKILL, and a new start."""
        ask(Path(self.stack.folder), "restart", "postgres")
        wait_for(lambda: self.ask("SELECT 1"), "the database was back")
        self.counts["database_restarts"] += 1

    def start_twice(self):
        """A second driver, while the first works. The first has to end by itself."""
        first = self.process
        self.start_driver()
        self.counts["starts_beside"] += 1
        try:
            first.wait(WAIT_SECONDS)
        finally:
            if first.poll() is None:
                os.killpg(first.pid, signal.SIGKILL)

    def stop_task(self):
        """Stop the process behind a session that is in a transaction; whoever waits for it ends it. Then it goes on."""
        for (port,) in self.ask(f"SELECT client_port {_SESSIONS} AND client_port > 0"):
            pid = find_process(port)
            if pid is None or pid == os.getpid():
                continue
            os.kill(pid, signal.SIGSTOP)
            if not self.ask(f"SELECT 1 {_SESSIONS} AND client_port = %s", port):
                # It was through by then.
                os.kill(pid, signal.SIGCONT)
                continue
            self.stopped.append((pid, time.monotonic()))
            self.counts["tasks_stopped"] += 1
            break

    def wake(self, *, is_last=False):
        """Let those go on that were stopped for long enough."""
        for pid, since in list(self.stopped):
            if is_last or time.monotonic() - since > STOP_SECONDS:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
                self.stopped.remove((pid, since))

    def move_offsets(self):
        """Move each offset to where it stands: whoever holds it must not go on with it."""
        moved = self.ask(
            "UPDATE seamark_ledger SET epoch = epoch + 1, moves = moves + 1 WHERE owner = %s RETURNING 1",
            self.landing.owner,
        )
        self.counts["moves"] += bool(moved)

    def delete_checkpoint(self):
        for folder in Path(tempfile.gettempdir()).glob("seamark-checkpoint-*"):
            shutil.rmtree(folder, ignore_errors=True)
            self.counts["checkpoints_deleted"] += 1

    def check(self):
        total, distinct, wrong = self.ask(
            f"SELECT count(*), count(DISTINCT number), count(*) FILTER (WHERE number %% {PARTITIONS} <> part OR "
            f"number / {PARTITIONS} <> place OR words <> 'word ' || number %% 997) FROM {self.name}"
        )[0]
        ends = {number: len(range(number, self.rows, PARTITIONS)) for number in range(PARTITIONS)}
        return {
            "lost": self.rows - distinct,
            "doubled": total - distinct,
            "changed": wrong,
            "ledger_wrong": int(self.read_ledger() != ends),
        }

    def remove(self):
        self.wake(is_last=True)
        self.end()
        self.admin.delete_topics([self.name])[self.name].result(30)
        self.ask(f"DROP TABLE {self.name}")
        self.ask(f"DROP FUNCTION {self.name}_wait")
        self.ask("DELETE FROM seamark_ledger WHERE owner = %s", self.landing.owner)


def find_process(port):
    """The process with a connection from this port of the machine."""
    inode = ""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            words = line.split()
            if int(words[1].rsplit(":", 1)[1], 16) == port and words[3] == "01":
                inode = words[9]
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            if inode and str(link.readlink()) == f"socket:[{inode}]":
                return int(link.parts[2])
    return None


def soak(stack, folder, *, rows, acts, mode=Mode.APPEND, seed=0, say=lambda _: None):
    """Land so many records while these faults happen, in this order. Gives the counts."""
    began_at = time.monotonic()
    stage = LandStage(stack, folder, rows=rows, batches=max(40, 4 * len(acts)), mode=mode, seed=seed)
    stage.prepare()
    try:
        left = work_off(stage, acts, say=say)
        counts = {**stage.counts, **stage.count_tasks(), **stage.check(), "not_done": left}
    finally:
        stage.remove()
    counts |= {"rows": rows, "mode": mode.value, "faults": len(acts), "seconds": round(time.monotonic() - began_at)}
    return counts


def work_off(stage, acts, *, say):
    stage.start_driver()
    for place, act in enumerate(acts):
        turn = place * stage.rows // (len(acts) + 1)

        def is_turn(turn=turn):
            stage.wake()
            return stage.done >= turn or stage.keep_alive()

        wait_for(is_turn, f"{turn} records were landed", every=0.1)
        before = sum(stage.counts.values())
        # What is to be done may be gone by the time that it is done.
        while sum(stage.counts.values()) == before:
            stage.wake()
            if not stage.await_transaction():
                return len(acts) - place
            before = sum(stage.counts.values())
            getattr(stage, act)()
        say(f"{act} at {stage.done} of {stage.rows}")

    def is_through():
        stage.wake()
        return stage.keep_alive()

    wait_for(is_through, "the landing was through", 3 * WAIT_SECONDS, 0.2)
    return 0


def choose_faults(count, *, seed, brokers):
    """So many faults, each kind as often as the others, in any order."""
    kinds = FAULTS if brokers < 3 else (*FAULTS, "restart_broker")
    acts = [kinds[place % len(kinds)] for place in range(count)]
    random.Random(seed).shuffle(acts)
    return acts


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.spark.land_soak")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--faults", type=int, default=30)
    parser.add_argument("--mode", choices=list(Mode), default="append")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    given = parser.parse_args()
    with ExitStack() as open_things:
        file = os.environ.get("SEAMARK_DEVSTACK")
        stack = load_stack(file) if file else open_things.enter_context(start_stack(SOAK, name="landing-soak"))
        folder = Path(open_things.enter_context(tempfile.TemporaryDirectory(prefix="land-soak-")))
        brokers = len(stack.kafka.bootstrap_servers.split(","))
        found = soak(
            stack,
            folder,
            rows=given.rows,
            acts=choose_faults(given.faults, seed=given.seed, brokers=brokers),
            mode=Mode(given.mode),
            seed=given.seed,
            say=lambda text: print(text, file=sys.stderr, flush=True),
        )
    print(json.dumps({"seed": given.seed, **found}))
    return 1 if any(found[name] for name in VIOLATIONS) else 0


if __name__ == "__main__":
    sys.exit(main())
