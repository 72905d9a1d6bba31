"""A landing under faults, and every row compared afterwards.

    python -m tools.soak pipelines [--to postgresql|delta|upsert] [--rows N] [--faults N] [--seed N]

Executors and drivers are killed, the broker, the database and S3 killed and started again, sessions of the database
ended, connections cut when a commit was sent, the landing is started twice, a task is stopped inside its transaction
and a driver before its commit, and both continued, the broker is restarted, offsets are moved under a landing that
runs. It uses the stack that SEAMARK_DEVSTACK names, or starts one, and prints one line of JSON. The exit code is 1 if a
row is missing or doubled, the offsets are not at the end, or a fault was not done.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from seamark.devstack import StackSpec, load_stack, start_stack
from tests.spark.driver_stage import WAIT_SECONDS, wait_for
from tests.spark.pipelines.soak_stages import STAGES

SOAK = StackSpec(brokers=3, workers=0, spark=True, spark_workers=2, postgres=True, s3=True)
VIOLATIONS = ("lost", "doubled", "changed", "ledger_wrong", "not_done")


def soak(stack, folder, *, rows, acts, to="postgresql", seed=0, batches=None, say=lambda _: None):
    """Land so many records while these faults happen, in this order. Gives the counts."""
    began_at = time.monotonic()
    stage = STAGES[to](stack, folder, rows=rows, batches=batches or max(40, 4 * len(acts)), seed=seed)
    stage.prepare()
    try:
        left = work_off(stage, acts, say=say)
        counts = {**stage.counts, **stage.count_tasks(), **stage.check(), "not_done": left}
    finally:
        stage.remove()
    counts |= {
        "to": to,
        "rows": rows,
        "faults": len(acts),
        "seconds": round(time.monotonic() - began_at),
    }
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


def choose_faults(count, *, to, seed, brokers):
    """So many faults, each kind as often as the others, in any order."""
    kinds = STAGES[to].faults if brokers < 3 else (*STAGES[to].faults, "restart_broker")
    acts = [kinds[place % len(kinds)] for place in range(count)]
    random.Random(seed).shuffle(acts)
    if to == "upsert":
        # While there is more than half of what was there before.
        acts.insert(count // 2, "grow")
    return acts


def main():
    parser = argparse.ArgumentParser(prog="python -m tools.soak pipelines")
    parser.add_argument("--to", choices=list(STAGES), default="postgresql")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--faults", type=int, default=30)
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
            acts=choose_faults(given.faults, to=given.to, seed=given.seed, brokers=brokers),
            to=given.to,
            seed=given.seed,
            say=lambda text: print(text, file=sys.stderr, flush=True),
        )
    print(json.dumps({"seed": given.seed, **found}))
    return 1 if any(found[name] for name in VIOLATIONS) else 0


if __name__ == "__main__":
    sys.exit(main())
