"""`offsets-list`: `seamark offsets list` of 10,000 connectors with 500,000 offsets in a topic of a real broker."""

from __future__ import annotations

import csv
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.harness.definition import Bench, BenchError, Leg, Limit, Prepared, Ratio, WrongResultError
from bench.harness.record import ROOT
from seamark.devstack import Stack, StackSpec, load_stack, start_stack
from seamark.kafka.partitioner import build_partitioner

OFFSETS = 500_000
OFFSETS_PER_CONNECTOR = 50
# Connect's own default for offset.storage.partitions.
PARTITIONS = 25
MOST_SECONDS = 15.0
MOST_BYTES = 600 * 1024 * 1024
_SECONDS = 600
_VERSION = "4.3.1"
_PLUGIN = "io.aiven.connect.jdbc.JdbcSourceConnector"


@dataclass(frozen=True, slots=True)
class Ground:
    """A filled offsets topic, and a contexts file that names it."""

    bootstrap: str
    topic: str
    offsets: int
    folder: Path

    @property
    def config(self) -> Path:
        """The contexts file."""
        return self.folder / "config.yaml"

    @property
    def out(self) -> Path:
        """Where a leg writes."""
        return self.folder / "out"


@dataclass(frozen=True, slots=True)
class Ran:
    """What a leg did, as a process from its start to its end: the format of its output, "" for a mere count."""

    form: str
    seconds: float
    cpu_seconds: float
    peak_bytes: int


def list_json(ground: Ground) -> Ran:
    """The list as JSON."""
    return _list(ground, "json")


def list_csv(ground: Ground) -> Ran:
    """The list as CSV."""
    return _list(ground, "csv")


def list_table(ground: Ground) -> Ran:
    """The list as a table."""
    return _list(ground, "table")


def count_bare(ground: Ground) -> Ran:
    """A program with confluent-kafka that reads every record and only counts."""
    return _run(ground, "", "bench.fixtures.fleets.count_records", ground.bootstrap, ground.topic, str(PARTITIONS))


def _list(ground: Ground, form: str) -> Ran:
    return _run(ground, form, "seamark.cli", "offsets", "list", "-o", form)


def _run(ground: Ground, form: str, module: str, *arguments: str) -> Ran:
    peak = ground.folder / "peak"
    command = [sys.executable, "-m", "bench.fixtures.fleets.peak", str(peak), sys.executable, "-m", module, *arguments]
    environ = {**os.environ, "SEAMARK_CONFIG": str(ground.config), "SEAMARK_CONTEXT": "bench"}
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with ground.out.open("wb") as out:
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, cwd=ROOT, env=environ, check=False)
    seconds, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise BenchError(f"{module} ended with {done.returncode}: {done.stderr.decode(errors='replace')[-500:]}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Ran(form, seconds, cpu, int(peak.read_text()))


def check_list(ground: Ground, ran: Ran) -> None:
    """Every offset once, under its connector, with its value; every record counted."""
    if not ran.form:
        if int(ground.out.read_text()) != ground.offsets:
            raise WrongResultError(f"{ground.out.read_text()} records were counted, and there are {ground.offsets}")
        return
    wanted = {number: _spell(number) for number in range(ground.offsets)}
    found = dict(enumerate(sorted(_READERS[ran.form](ground.out))))
    expected = dict(enumerate(sorted(wanted.values())))
    if found != expected:
        wrong = [number for number in expected if found.get(number) != expected[number]]
        first = found.get(wrong[0]) if wrong else ""
        raise WrongResultError(f"{len(found)} offsets, and {len(wrong)} of {len(expected)} are wrong; first {first}")


def _spell(number: int) -> str:
    name, table = _name(number)
    return f"bench/{name} {table} {number}"


def _name(number: int) -> tuple[str, str]:
    owner, table = divmod(number, OFFSETS_PER_CONNECTOR)
    return f"log-{owner:05d}", f"game.public.events_{owner:05d}_{table:02d}"


def _read_json(path: Path) -> Iterator[str]:
    for item in json.loads(path.read_bytes())["items"]:
        yield f"{item['owner']} {item['partition']['table']} {item['offset']['incrementing']}"


def _read_csv(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            partition, offset = json.loads(row["partition"]), json.loads(row["offset"])
            yield f"{row['owner']} {partition['table']} {offset['incrementing']}"


def _read_table(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8") as file:
        next(file)
        for text in file:
            # OWNER   protocol "1", table NAME   incrementing N, timestamp T …
            owner, _, _, _, table, _, number, *_ = text.split()
            yield f"{owner} {table} {number.rstrip(',').replace(',', '')}"


_READERS = {"json": _read_json, "csv": _read_csv, "table": _read_table}


@contextmanager
def open_ground(size: int) -> Iterator[Prepared[Ground]]:
    """One broker with a filled topic, and the answers of a worker. With SEAMARK_DEVSTACK the broker of that stack."""
    path = os.environ.get("SEAMARK_DEVSTACK")
    if path:
        with _fill(load_stack(Path(path)), size) as prepared:
            yield prepared
    else:
        with start_stack(StackSpec(brokers=1, workers=0, full_jit=True)) as stack, _fill(stack, size) as prepared:
            yield prepared


@contextmanager
def _fill(stack: Stack, size: int) -> Iterator[Prepared[Ground]]:
    bootstrap, topic = stack.kafka.bootstrap_servers, f"bench-list-{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    made = NewTopic(topic, PARTITIONS, 1, config={"cleanup.policy": "compact"})
    admin.create_topics([made])[topic].result(60)
    try:
        with TemporaryDirectory(prefix="seamark-bench-") as folder, _serve(size // OFFSETS_PER_CONNECTOR) as url:
            _write_offsets(bootstrap, topic, size)
            ground = Ground(bootstrap, topic, size, Path(folder))
            ground.config.write_text(
                f"contexts:\n  bench:\n    journal: file\n    kafka: {{bootstrap.servers: '{bootstrap}'}}\n"
                f"    connect:\n      bench: {{urls: ['{url}'], offsets_topic: {topic}}}\n"
            )
            pids = {server.name: server.pid for server in stack.servers}
            yield Prepared(ground, pids=pids, versions={"kafka": stack.kafka.version})
    finally:
        admin.delete_topics([topic])[topic].result(60)


@contextmanager
def _serve(connectors: int) -> Iterator[str]:
    """Answer for a worker with so many connectors, which a real one takes twenty minutes to create."""
    bodies: Mapping[str, bytes] = {
        "/": json.dumps({"version": _VERSION, "commit": "0", "kafka_cluster_id": "bench"}).encode(),
        "/health": b'{"status":"healthy","message":"Worker has completed startup and is ready to handle requests."}',
        "/connectors": json.dumps(
            {f"log-{number:05d}": _build_connector(number) for number in range(connectors)}
        ).encode(),
    }

    class Handler(BaseHTTPRequestHandler):
        # A proof that a worker is ready holds for its connection.
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = bodies.get(self.path.partition("?")[0])
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body or b"{}")))
            self.end_headers()
            self.wfile.write(body or b"{}")

        def log_message(self, *_: object) -> None:
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def _build_connector(number: int) -> dict[str, object]:
    name = f"log-{number:05d}"
    config = {"name": name, "connector.class": _PLUGIN, "tasks.max": "1", "mode": "timestamp+incrementing"}
    config |= {
        "connection.url": "jdbc:postgresql://db:5432/game",
        "topic.prefix": f"{name}.",
        "poll.interval.ms": "500",
    }
    worker = "10.0.0.1:8083"
    return {
        "info": {"name": name, "config": config, "tasks": [{"connector": name, "task": 0}], "type": "source"},
        "status": {
            "name": name,
            "connector": {"state": "RUNNING", "worker_id": worker},
            "tasks": [{"id": 0, "state": "RUNNING", "worker_id": worker}],
            "type": "source",
        },
    }


def _write_offsets(bootstrap: str, topic: str, size: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 500_000})
    home = build_partitioner(PARTITIONS)
    for number in range(size):
        name, table = _name(number)
        key = b'["%s",{"protocol":"1","table":"%s"}]' % (name.encode(), table.encode())
        value = b'{"incrementing":%d,"timestamp":%d,"timestamp_nanos":0}' % (number, 1_700_000_000_000 + number)
        while True:
            try:
                producer.produce(topic, key=key, value=value, partition=home(key))
                break
            except BufferError:
                producer.poll(0.1)
        if number % 10_000 == 0:
            producer.poll(0)
    deadline = time.monotonic() + _SECONDS
    while len(producer):
        producer.flush(1.0)
        if time.monotonic() > deadline:
            raise BenchError(f"the topic was not filled within {_SECONDS} s")


def _read_gauges(ran: Ran) -> Mapping[str, float]:
    return {"seconds": ran.seconds, "cpu_seconds": ran.cpu_seconds, "peak_bytes": float(ran.peak_bytes)}


_FORMS = {"json": list_json, "csv": list_csv, "table": list_table}

BENCH: Bench[Ground, Ran] = Bench(
    name="offsets-list",
    compares=(
        f"`seamark offsets list` of {OFFSETS // OFFSETS_PER_CONNECTOR:,} connectors with {OFFSETS:,} offsets, as "
        "JSON, CSV and table, each a process from its start to its end. The offsets topic is on a real broker; the "
        "connectors are the answers of a program that stands for a worker. Compared with a program with "
        "confluent-kafka that only counts the records."
    ),
    setup=open_ground,
    check=check_list,
    legs=(*(Leg(form, run) for form, run in _FORMS.items()), Leg("counts", count_bare)),
    ratios=tuple(
        Ratio(f"counting over the {form} list", over="counts", under=form, bar=0.1, gauge="cpu_seconds")
        for form in _FORMS
    ),
    limits=(
        *(Limit(f"seconds of the {form} list", leg=form, gauge="seconds", bar=MOST_SECONDS) for form in _FORMS),
        *(Limit(f"CPU of the {form} list", leg=form, gauge="cpu_seconds", bar=MOST_SECONDS) for form in _FORMS),
        *(Limit(f"memory of the {form} list", leg=form, gauge="peak_bytes", bar=MOST_BYTES) for form in _FORMS),
    ),
    read_gauges=_read_gauges,
    sizes=(OFFSETS,),
    quick_sizes=(50_000,),
    pairs=5,
)
