"""`connect-list`: our fleet read of 200 connectors against the bare GET of the same."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2

from bench.harness.definition import Bench, BenchError, Leg, Prepared, Ratio, WrongResultError
from seamark.connect.client import ConnectClient
from seamark.connect.model import Connector, State
from seamark.devstack import Stack, StackSpec, load_stack, start_stack

CONNECTORS = 200
PLUGIN = "org.apache.kafka.connect.file.FileStreamSourceConnector"
# A warm worker gives 200 connectors in about 8 ms: 120 reads last a second, a hundred ticks of the CPU clock and far
# above the jitter of the scheduler.
READS = 120
# A fresh worker was seen to get faster over its first 600 reads or so of each leg, from 14 to 8 ms.
WARMUPS = 6
# Connect takes about 8 creates a second, however many clients ask; a rebalance in between answers 409.
WRITERS = 8
WRITE_DEADLINE_SECONDS = 120.0
SETTLE_DEADLINE_SECONDS = 120.0
PATH = "/connectors?expand=info&expand=status"

BareRead = dict[str, dict[str, Any]]
Read = BareRead | tuple[Connector, ...]


@dataclass(frozen=True, slots=True)
class Fleet:
    """The connectors that were made, and one client for each leg, both kept alive over all reads."""

    names: frozenset[str]
    ours: ConnectClient
    bare: httpx2.Client


def read_ours(fleet: Fleet) -> list[Read]:
    """Our read, repeated."""
    return [fleet.ours.read_connectors() for _ in range(READS)]


def read_bare(fleet: Fleet) -> list[Read]:
    """The bare GET, repeated; parsed, because a result that nobody parsed can't be checked."""
    return [_get_bare(fleet.bare) for _ in range(READS)]


def check_reads(fleet: Fleet, reads: Sequence[Read]) -> None:
    """Every read must show every connector, stopped, with its plugin."""
    if len(reads) != READS:
        raise WrongResultError(f"{len(reads)} reads instead of {READS}")
    wanted = dict.fromkeys(fleet.names, (State.STOPPED.value, PLUGIN))
    for read in reads:
        seen = {name: facts for name, facts in _facts(read).items() if name in wanted}
        if seen != wanted:
            wrong = sorted(name for name in wanted if seen.get(name) != wanted[name])
            raise WrongResultError(f"{len(wrong)} of {len(wanted)} connectors, first {wrong[0]}: {seen.get(wrong[0])}")


def _facts(read: Read) -> dict[str, tuple[str, str]]:
    if isinstance(read, tuple):
        return {one.name: (one.status.state.value if one.status else "", one.plugin) for one in read}
    return {
        name: (entry["status"]["connector"]["state"], entry["info"]["config"]["connector.class"])
        for name, entry in read.items()
    }


def _get_bare(client: httpx2.Client) -> BareRead:
    response = client.get(PATH)
    response.raise_for_status()
    parsed: BareRead = json.loads(response.content)
    return parsed


@contextmanager
def open_fleet(size: int) -> Iterator[Prepared[Fleet]]:
    """A real worker with that many stopped connectors.

    With SEAMARK_DEVSTACK a running stack is used, and what was made there is deleted again.
    """
    path = os.environ.get("SEAMARK_DEVSTACK")
    if path:
        with _make_fleet(load_stack(Path(path)), size, is_kept=True) as prepared:
            yield prepared
    else:
        with (
            start_stack(StackSpec(brokers=1, workers=1, full_jit=True)) as stack,
            _make_fleet(stack, size, is_kept=False) as prepared,
        ):
            yield prepared


@contextmanager
def _make_fleet(stack: Stack, size: int, *, is_kept: bool) -> Iterator[Prepared[Fleet]]:
    endpoint = stack.connect["connect"]
    run = uuid4().hex[:6]
    names = frozenset(f"bench-{run}-{number:04d}" for number in range(size))
    # Both legs ask the same worker, also where a reused stack has several.
    with (
        httpx2.Client(base_url=endpoint.urls[0], timeout=100.0, trust_env=False) as bare,
        ConnectClient(endpoint.urls[:1], cluster="connect") as ours,
    ):
        fleet = Fleet(names=names, ours=ours, bare=bare)
        try:
            _write_all(names, lambda name: _create(bare, name))
            _wait_until_stopped(fleet)
            pids = {server.name: server.pid for server in stack.servers}
            yield Prepared(
                subject=fleet, pids=pids, versions={"kafka": stack.kafka.version, "connect": endpoint.version}
            )
        finally:
            # A stack of our own goes down with everything in it.
            if is_kept:
                _write_all(names, lambda name: _delete(bare, name))


def _write_all(names: frozenset[str], write: Callable[[str], None]) -> None:
    with ThreadPoolExecutor(WRITERS) as pool:
        for _ in pool.map(write, sorted(names)):
            pass


def _create(client: httpx2.Client, name: str) -> None:
    config = {"connector.class": PLUGIN, "tasks.max": "1", "topic": name, "file": f"{name}.txt"}
    body = {"name": name, "config": config, "initial_state": State.STOPPED.value}
    # A repeated POST whose first answer was lost finds the connector there.
    _write(client, "POST", "/connectors", body=body, done=(201,), also=lambda text: "already exists" in text)


def _delete(client: httpx2.Client, name: str) -> None:
    _write(client, "DELETE", f"/connectors/{name}", body=None, done=(204, 404), also=lambda _: False)


def _write(
    client: httpx2.Client,
    method: str,
    path: str,
    *,
    body: Mapping[str, Any] | None,
    done: tuple[int, ...],
    also: Callable[[str], bool],
) -> None:
    deadline = time.monotonic() + WRITE_DEADLINE_SECONDS
    while True:
        response = client.request(method, path, json=body)
        if response.status_code in done or (response.status_code == 409 and also(response.text)):
            return
        if response.status_code != 409 or time.monotonic() > deadline:
            raise BenchError(f"{method} {path} answered {response.status_code}: {response.text[:200]}")
        time.sleep(0.2)


def _wait_until_stopped(fleet: Fleet) -> None:
    # The status topic lags behind a create, so the first reads may lack a state.
    deadline = time.monotonic() + SETTLE_DEADLINE_SECONDS
    while True:
        seen = _get_bare(fleet.bare)
        states = {name: entry.get("status", {}).get("connector", {}).get("state") for name, entry in seen.items()}
        waiting = [name for name in fleet.names if states.get(name) != State.STOPPED.value]
        if not waiting:
            return
        if time.monotonic() > deadline:
            raise BenchError(f"{len(waiting)} of {len(fleet.names)} connectors did not become STOPPED")
        time.sleep(0.5)


BENCH: Bench[Fleet, list[Read]] = Bench(
    name="connect-list",
    compares=(
        f"Reading {CONNECTORS} connectors with state and config from one worker: a bare GET parsed as JSON, "
        f"against `ConnectClient.read_connectors()`. The figure is bare seconds over our seconds, {READS} reads a run."
    ),
    setup=open_fleet,
    check=check_reads,
    legs=(Leg("bare", read_bare), Leg("ours", read_ours)),
    ratios=(Ratio("bare over ours", over="bare", under="ours", bar=0.7),),
    sizes=(CONNECTORS,),
    # The second lowest and second highest of 8 cover 93 %, so that one disturbed pair does not widen the interval.
    pairs=8,
    warmups=WARMUPS,
)
