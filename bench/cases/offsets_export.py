"""`offsets-export`: `connect-offsets --export` against kcat with jq, and against a loop that only counts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.harness.definition import Bench, BenchError, Leg, Limit, Prepared, Ratio, WrongResultError
from bench.harness.record import ROOT
from seamark.devstack import Stack, StackSpec, load_stack, start_stack
from seamark.kafka.partitioner import choose_partition

RECORDS = 2_000_000
# As many records for each key as for a source that flushed twenty times since the last compaction.
RECORDS_PER_KEY = 20
KEYS_PER_CONNECTOR = 1_000
# Connect's own default for offset.storage.partitions.
PARTITIONS = 25
MOST_BYTES = 512 * 1024 * 1024
_SECONDS = 900
_PROGRAM = "from seamark.cli.connect_offsets import main; main()"
# By connector and partition the newest offset, as one has to write it with jq; the last record of a key wins.
_RECIPE = (
    "reduce inputs as {$key, $value} ({}; .[$key[0]][$key[1] | tojson] = {partition: $key[1], offset: $value})"
    " | map_values([.[]])"
)

Export = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Ground:
    """An offsets topic that is filled, a worker's file that names it, and what an export of it must say."""

    bootstrap: str
    topic: str
    records: int
    folder: Path
    wanted: Export

    @property
    def config(self) -> Path:
        """The worker's properties."""
        return self.folder / "worker.properties"

    @property
    def out(self) -> Path:
        """Where a leg writes."""
        return self.folder / "out.json"


@dataclass(frozen=True, slots=True)
class Ran:
    """What a leg did: its export, or how many records it counted; and its largest process."""

    peak_bytes: int
    count: int | None = None


def export_ours(ground: Ground) -> Ran:
    """`connect-offsets --export`, as a program."""
    program = [sys.executable, "-c", _PROGRAM, "--export", f"--config={ground.config}"]
    return Ran(_run([*program, str(ground.out)]))


def export_recipe(ground: Ground) -> Ran:
    """The recipe of today: kcat, then jq."""
    form = '{"key":%k,"value":%s}\\n'
    with (
        ground.out.open("wb") as out,
        subprocess.Popen(
            ["kcat", "-b", ground.bootstrap, "-t", ground.topic, "-C", "-e", "-q", "-f", form], stdout=subprocess.PIPE
        ) as kcat,
    ):
        peak = _run(["jq", "-cn", _RECIPE], stdin=kcat.stdout, stdout=out)
        if kcat.wait(_SECONDS) != 0:
            raise BenchError(f"kcat ended with {kcat.returncode}")
    return Ran(peak)


def count_bare(ground: Ground) -> Ran:
    """A program with confluent-kafka that reads everything and only counts."""
    order = [ground.bootstrap, ground.topic, str(PARTITIONS)]
    with ground.out.open("wb") as out:
        peak = _run([sys.executable, "-m", "bench.fixtures.fleets.count_records", *order], stdout=out)
    return Ran(peak, count=int(ground.out.read_text()))


def _run(command: Sequence[str], *, stdin: Any = None, stdout: Any = None) -> int:
    """Run a program to its end; gives the most memory it had."""
    with TemporaryDirectory() as folder:
        peak = Path(folder) / "peak"
        measured = [sys.executable, "-m", "bench.fixtures.fleets.peak", str(peak), *command]
        done = subprocess.run(measured, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, cwd=ROOT, check=False)
        if done.returncode:
            raise BenchError(
                f"{command[0]} ended with {done.returncode}: {done.stderr.decode(errors='replace')[-500:]}"
            )
        return int(peak.read_text())


def check_export(ground: Ground, ran: Ran) -> None:
    """The same JSON from both, and every record counted."""
    if ran.count is not None:
        if ran.count != ground.records:
            raise WrongResultError(f"{ran.count} records were counted, and there are {ground.records}")
        return
    found: dict[str, list[dict[str, Any]]] = json.loads(ground.out.read_bytes())
    seen = {name: {_spell(one["partition"]): one["offset"] for one in offsets} for name, offsets in found.items()}
    if seen != ground.wanted or any(len(found[name]) != len(seen[name]) for name in found):
        wrong = [name for name in ground.wanted if seen.get(name) != ground.wanted[name]]
        raise WrongResultError(f"the export is wrong for {len(wrong)} connectors, first {wrong[:1]}")


def _clear(ground: Ground) -> None:
    ground.out.unlink(missing_ok=True)


def _spell(partition: Mapping[str, Any]) -> str:
    return json.dumps(partition, sort_keys=True)


@contextmanager
def open_ground(size: int) -> Iterator[Prepared[Ground]]:
    """One broker with a filled topic. With SEAMARK_DEVSTACK those of a running stack."""
    if missing := [name for name in ("kcat", "jq") if shutil.which(name) is None]:
        raise BenchError(f"{' and '.join(missing)} must be installed: the recipe needs both")
    path = os.environ.get("SEAMARK_DEVSTACK")
    if path:
        with _fill(load_stack(Path(path)), size) as prepared:
            yield prepared
    else:
        with start_stack(StackSpec(brokers=1, workers=0, full_jit=True)) as stack, _fill(stack, size) as prepared:
            yield prepared


@contextmanager
def _fill(stack: Stack, size: int) -> Iterator[Prepared[Ground]]:
    bootstrap, topic = stack.kafka.bootstrap_servers, f"bench-offsets-{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    # Compaction would take records away while the legs count them.
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(60)
    try:
        with TemporaryDirectory(prefix="seamark-bench-") as folder:
            wanted = _write_offsets(bootstrap, topic, size)
            ground = Ground(bootstrap, topic, size, Path(folder), wanted)
            ground.config.write_text(
                f"bootstrap.servers={bootstrap}\ngroup.id=bench\noffset.storage.topic={topic}\n"
                "config.storage.topic=c\nstatus.storage.topic=s\n"
            )
            pids = {server.name: server.pid for server in stack.servers}
            yield Prepared(ground, pids=pids, versions={"kafka": stack.kafka.version})
    finally:
        admin.delete_topics([topic])[topic].result(60)


def _write_offsets(bootstrap: str, topic: str, size: int) -> Export:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 500_000})
    wanted: Export = {}
    keys = size // RECORDS_PER_KEY
    spelled = [_build_key(number) for number in range(keys)]
    homes = [choose_partition(key, partitions=PARTITIONS) for key, _, _ in spelled]
    for number in range(size):
        key, name, partition = spelled[number % keys]
        offset = {"incrementing": number, "timestamp": 1_700_000_000_000 + number}
        value = json.dumps(offset, separators=(",", ":")).encode()
        while True:
            try:
                producer.produce(topic, key=key, value=value, partition=homes[number % keys])
                break
            except BufferError:
                producer.poll(0.1)
        if number % 10_000 == 0:
            producer.poll(0)
        if number >= size - keys:
            wanted.setdefault(name, {})[_spell(partition)] = offset
    deadline = time.monotonic() + _SECONDS
    while len(producer):
        producer.flush(1.0)
        if time.monotonic() > deadline:
            raise BenchError(f"the topic was not filled within {_SECONDS} s")
    return wanted


def _build_key(number: int) -> tuple[bytes, str, dict[str, str]]:
    name = f"source-{number // KEYS_PER_CONNECTOR:04d}"
    partition = {"protocol": "1", "table": f"game.public.table_{number % KEYS_PER_CONNECTOR:04d}"}
    return json.dumps([name, partition], separators=(",", ":")).encode(), name, partition


BENCH: Bench[Ground, Ran] = Bench(
    name="offsets-export",
    compares=(
        f"An offsets topic of {RECORDS:,} records with {RECORDS // RECORDS_PER_KEY:,} keys as JSON: `connect-offsets "
        "--export` against kcat piped into jq, which give the same JSON, and against a program with confluent-kafka "
        "that only counts the records. Each is a process from its start to its end; the figures are their seconds over "
        "ours."
    ),
    setup=open_ground,
    check=check_export,
    legs=(
        Leg("recipe", export_recipe, prepare=_clear),
        Leg("ours", export_ours, prepare=_clear),
        Leg("counts", count_bare, prepare=_clear),
    ),
    ratios=(
        Ratio("kcat and jq over ours", over="recipe", under="ours", bar=3.0),
        Ratio("counting over ours", over="counts", under="ours", bar=0.7),
    ),
    limits=(Limit("memory of ours", leg="ours", gauge="peak_bytes", bar=MOST_BYTES),),
    read_gauges=lambda ran: {"peak_bytes": float(ran.peak_bytes)},
    sizes=(RECORDS,),
    quick_sizes=(200_000,),
    pairs=5,
)
