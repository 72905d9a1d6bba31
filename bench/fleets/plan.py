"""The legs of `fleet-plan`, in a process of their own each time: `python -m bench.fleets.plan`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import httpx2

import seamark
from bench.fleets.child import read_peak_bytes, receive_order, say, say_ready
from seamark.core.readings import MAX_THREADS

# What `seamark plan` reads of each cluster.
PATHS = ("/connectors?expand=info&expand=status", "/connectors", "/")
# The context with which a leg begins: everything is loaded and run once, on a fleet that is not the measured one.
WARM = "warm"

Work = Callable[[], Mapping[str, Any]]


def main() -> None:
    """Do one leg and say what it gave and took."""
    order = receive_order()
    build = build_ours if order["leg"] == "ours" else build_bare
    build(order[WARM])()
    work = build(order["fleet"])
    at_start = read_peak_bytes()
    say_ready()
    begin = time.perf_counter()
    found = work()
    seconds = time.perf_counter() - begin
    peak = read_peak_bytes()
    life_seconds = time.time() - order["started_at"]
    say({**found, "seconds": seconds, "life_seconds": life_seconds, "peak_bytes": peak, "work_bytes": peak - at_start})
    # What took long to build takes long to take apart, and nobody waits for that.
    os._exit(0)


def build_ours(order: Mapping[str, Any]) -> Work:
    """The plan as the command line makes it, its text included."""

    def work() -> Mapping[str, Any]:
        with seamark.open(order["context"]) as fleet:
            planned = fleet.plan(order["spec"])
            lines = len(str(planned).splitlines())
        signs = [f"{effect.sign.value} {effect.subject.rpartition('/')[2]}" for effect in planned.effects]
        return {"signs": signs, "lines": lines, "read": sum(one.connectors for one in planned.survey)}

    return work


def build_bare(order: Mapping[str, Any]) -> Work:
    """The readings alone, as many at once as ours, parsed."""
    urls: Mapping[str, list[str]] = order["urls"]

    def read(client: httpx2.Client, url: str) -> list[Any]:
        return [json.loads(client.get(url + path).raise_for_status().content) for path in PATHS]

    def work() -> Mapping[str, Any]:
        # One client for all: each would make its own TLS settings, which takes longer than a reading.
        with httpx2.Client(timeout=100.0, trust_env=False) as client, ThreadPoolExecutor(MAX_THREADS) as pool:
            readings = list(pool.map(partial(read, client), [first for first, *_ in urls.values()]))
        return {"signs": [], "lines": 0, "read": sum(len(connectors) for connectors, *_ in readings)}

    return work


if __name__ == "__main__":
    main()
