"""The simulated Connect gives the same results as a real one: the same acts on both, a hundred times."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from seamark.connect.caller import Timing
from seamark.connect.client import ConnectClient
from seamark.errors import SeamarkError
from tests.fakes.connect import FILE_SOURCE
from tests.simulation.changes.test_like_connect import TRACES, run_simulated
from tests.simulation.traces import VERBS, build_trace, run_trace

# So many traces go on at once. Each waits for rebalances most of its time, and they share those.
AT_ONCE = 25
# Connect has settled when it shows the same for this long; a status follows its cause within some 0.3 s when idle.
CALM_SECONDS = 0.7
SETTLE_SECONDS = 120.0
# Rebalances follow each other as long as the traces run, and while one is due a restart is answered 409. Whether it is
# done at last is what is compared, and a busy machine needs longer for it than anybody would wait at a prompt.
PATIENCE = Timing(deadline_seconds=240)


def settle(look, expected):
    """What is shown when it has settled: the expected, or what lasts. It is never the first glance."""
    begun = calm_since = time.monotonic()
    shown = None
    while True:
        try:
            now = look()
        except SeamarkError as error:
            now = error.code
        if now != shown:
            shown, calm_since = now, time.monotonic()
        calm = time.monotonic() - calm_since
        is_final = shown == expected or time.monotonic() - begun > SETTLE_SECONDS
        if calm >= CALM_SECONDS and is_final:
            return shown
        time.sleep(0.2)


def run_real(client, seed, expected, *, file):
    """One trace; gives what it told."""
    name = f"trace-{seed}-{uuid.uuid4().hex[:6]}"
    shown = iter([line.partition("; ")[2] for line in expected])
    config = {"connector.class": FILE_SOURCE, "file": str(file), "topic": "traces"}
    try:
        return run_trace(
            client, build_trace(seed), name=name, config=config, settle=lambda look: settle(look, next(shown))
        )
    finally:
        remove(client, name)


def remove(client, name):
    try:
        client.delete_connector(name)
    except SeamarkError as error:
        if error.code != "NOT_FOUND":
            raise


# The shared stack's connectors would be in the rebalances of all these.
@pytest.mark.timeout(900)
def test_the_same_acts_give_the_same_results_on_a_real_connect(own_stack, tmp_path):
    file = tmp_path / "input.txt"
    file.write_text("one\n")
    expected = {seed: run_simulated(seed) for seed in range(TRACES)}
    begun = time.monotonic()
    with (
        ConnectClient(own_stack.connect["connect"].urls, timing=PATIENCE) as client,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        runs = {seed: pool.submit(run_real, client, seed, expected[seed], file=file) for seed in expected}
        found = {seed: run.result() for seed, run in runs.items()}
    counts = Counter(line.partition(": ")[2].partition(";")[0] for lines in found.values() for line in lines)
    counts.update(verb for seed in found for verb, _ in build_trace(seed))
    print(f"{len(found)} traces, {time.monotonic() - begun:.0f} s, {dict(counts)}")
    differing = {seed: (expected[seed], found[seed]) for seed in found if found[seed] != expected[seed]}
    assert differing == {}
    assert len(found) == TRACES
    assert all(counts[verb] > 20 for verb in VERBS)
    assert counts["done"] > 200
    assert counts["NOT_FOUND"] > 50
    assert counts["ALREADY_EXISTS"] > 20
