"""A long run: guarded changes on real servers, killed and stopped at random times, each then resumed.

    python -m tests.soak MINUTES [--seed N] [--lanes N] [--no-record]

It uses the stack that SEAMARK_DEVSTACK names, or starts one. The row goes to docs/reliability.md. The exit code is 1
if an invariant was violated or nothing was killed. The seed sets which times are drawn; what the machine makes of them
differs from run to run.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from seamark.devstack import StackSpec, load_stack, start_stack
from tests.soak.lane import Lane
from tests.soak.proxy import Proxy
from tests.soak.record import append_row, build_row

# Two cores bear this many; every third has its journal in files.
LANES = 6


def read_arguments():
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("minutes", type=float)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--lanes", type=int, default=LANES)
    parser.add_argument("--no-record", action="store_true", help="leave docs/reliability.md alone")
    return parser.parse_args()


def open_stack(stack):
    """The running stack, or one of our own."""
    if file := os.environ.get("SEAMARK_DEVSTACK"):
        return load_stack(file)
    return stack.enter_context(start_stack(StackSpec(brokers=3, workers=2), name="soak"))


def tell(lanes, begun, over):
    """How it goes, once in half a minute."""
    while not over.wait(30):
        counts = sum((lane.counts for lane in lanes), Counter())
        violations = sum(len(lane.violations) for lane in lanes)
        print(f"{time.monotonic() - begun:5.0f} s  {dict(counts)}  violations {violations}", flush=True)


def run(lanes, seconds):
    begun, over = time.monotonic(), threading.Event()
    teller = threading.Thread(target=tell, args=(lanes, begun, over), daemon=True)
    teller.start()
    try:
        with ThreadPoolExecutor(len(lanes)) as pool:
            for done in [pool.submit(lane.run_until, begun + seconds) for lane in lanes]:
                done.result()
    finally:
        over.set()
    return time.monotonic() - begun


def main():
    wanted = read_arguments()
    print(f"seed {wanted.seed}", flush=True)
    with ExitStack() as exits:
        stack = open_stack(exits)
        folder = Path(exits.enter_context(tempfile.TemporaryDirectory(prefix="seamark-soak-")))
        proxies = [exits.enter_context(Proxy(url)) for url in stack.connect["connect"].urls]
        lanes = [
            Lane(
                stack,
                folder / f"{wanted.seed}-{number}",
                journal="file" if number % 3 == 2 else "kafka",
                seed=wanted.seed + number,
                proxies=proxies,
            )
            for number in range(wanted.lanes)
        ]
        seconds = run(lanes, wanted.minutes * 60)
    counts = sum((lane.counts for lane in lanes), Counter())
    violations = [violation for lane in lanes for violation in lane.violations]
    row = build_row(stack, counts, violations=len(violations), minutes=seconds / 60, seed=wanted.seed)
    print(f"{row}\n" + "\n".join(violations), flush=True)
    if not wanted.no_record:
        append_row(row)
    return 1 if violations or not counts["kills"] else 0


if __name__ == "__main__":
    sys.exit(main())
