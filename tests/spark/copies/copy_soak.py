"""A copy under faults, and every record compared afterwards.

    python -m tools.soak copies [--rows N] [--shape 12,6] [--executors N] [--drivers N] [--brokers N]
        [--stalls N]

Executors and drivers are killed (SIGKILL) while somebody writes, a broker is killed and started again, and the
connections to a leader and to a coordinator of transactions are stalled. It uses the stack that SEAMARK_DEVSTACK names,
or starts one, and prints one line of JSON. The exit code is 1 if a record is lost, doubled, changed, misplaced or out
of order, if debris is not listed right, or if a fault was not done.
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

from seamark.copies.plan.progress import find_aborted
from seamark.devstack import StackSpec, load_stack, start_stack
from tests.spark.copies.copy_records import Source, compare, compare_debris, fill
from tests.spark.copies.copy_stage import WAIT_SECONDS, CopyStage, wait_for
from tests.spark.kafka_side import KafkaSide

SOAK = StackSpec(brokers=3, workers=0, spark=True, spark_workers=2, broker_doors=True)
FAULTS = ("kill_executor", "kill_driver", "restart_broker", "stall_leader", "stall_coordinator")


def soak(stack, folder, *, rows, shape, faults, source=None, seed=0, say=lambda _: None):
    """Copy so many records while these faults happen, a dict of names and numbers. Gives the stage and the counts."""
    began_at = time.monotonic()
    acts = [name for name, count in faults.items() for _ in range(count)]
    random.Random(seed).shuffle(acts)
    stage = CopyStage(stack, folder, shape=shape, slices=max(8, 2 * len(acts)), source=source, seed=seed)
    if source is None:
        fill(stage.servers, stage.source, rows=rows, partitions=shape[0])
    stage.make_plan()
    try:
        left = work_off(stage, acts, say=say)
        counts = check(stage, rows=rows)
    finally:
        stage.end()
    counts |= {"rows": rows, "shape": list(shape), "seconds": round(time.monotonic() - began_at), "not_done": left}
    counts["violations"] = sum(
        counts[name] for name in ("lost", "doubled", "changed", "misplaced", "reordered", "debris_wrong", "not_done")
    )
    return stage, counts


def work_off(stage, acts, *, say):
    """Run the copy, and do each act when its turn has come and somebody writes. Gives how many were not done."""
    stage.start_driver()
    every = len(stage.plan.slices)
    for place, act in enumerate(acts):
        turn = place * every // (len(acts) + 1)
        wait_for(
            lambda turn=turn: stage.done >= turn or stage.keep_alive(), f"slice {turn} of {every} was done", 1800, 0.1
        )
        if not stage.await_transaction():
            return len(acts) - place
        say(f"{act} at slice {stage.done} of {every}")
        getattr(stage, act)()
    wait_for(stage.keep_alive, "the copy was through", 3 * WAIT_SECONDS, 0.2)
    return 0


def check(stage, *, rows):
    """Every record compared, and the list of debris."""
    side = KafkaSide(stage.servers)
    progress = stage.read_progress()
    assert progress.is_complete
    source = Source.read(side.read(stage.source), rows=rows)
    debris = find_aborted(progress.records, ends=stage.read_ends(stage.target, stage.shape[1]))
    committed = side.read(stage.target)
    wrong = compare(source, committed, routing=stage.plan.routing)
    found, debris_wrong = compare_debris(debris, committed, side.read(stage.target, committed=False))
    return {
        **wrong,
        **stage.counts,
        **stage.count_tasks(),
        "copied": progress.count,
        "slices": len(stage.plan.slices),
        "debris": found,
        "debris_wrong": debris_wrong,
        "control_repeats": progress.repeats,
    }


def read_arguments():
    parser = argparse.ArgumentParser(prog="python -m tools.soak copies")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--shape", default="12,6", help="partitions of the source and of the target")
    parser.add_argument("--executors", type=int, default=10, help="how many executors to kill")
    parser.add_argument("--drivers", type=int, default=3)
    parser.add_argument("--brokers", type=int, default=1)
    parser.add_argument("--stalls", type=int, default=1, help="of a leader and of a coordinator each")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    return parser.parse_args()


def main():
    given = read_arguments()
    counts = (given.executors, given.drivers, given.brokers, given.stalls, given.stalls)
    with ExitStack() as open_things:
        file = os.environ.get("SEAMARK_DEVSTACK")
        stack = load_stack(file) if file else open_things.enter_context(start_stack(SOAK, name="copy-soak"))
        folder = Path(open_things.enter_context(tempfile.TemporaryDirectory(prefix="copy-soak-")))
        stage, found = soak(
            stack,
            folder,
            rows=given.rows,
            shape=tuple(map(int, given.shape.split(","))),
            faults=dict(zip(FAULTS, counts, strict=True)),
            seed=given.seed,
            say=lambda text: print(text, file=sys.stderr, flush=True),
        )
        stage.remove()
    print(json.dumps({"seed": given.seed, **found}))
    return 1 if found["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
