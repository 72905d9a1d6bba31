"""A long run on real servers: changes killed and stopped at random times, each then resumed.

    python -m tools.soak changes MINUTES [--seed N] [--lanes N] [--no-record]
    python -m tools.soak offsets MINUTES [--servers-every SECONDS] [--resume-share SHARE]

Guarded changes of configs; with --offsets, which the kind `offsets` adds, offsets that are moved and put back while
answers are lost and servers die. It uses the stack that SEAMARK_DEVSTACK names, or starts one; --offsets kills servers
of it. The row goes to docs/explanation/reliability.md. The exit code is 1 if an invariant was violated or nothing was
killed. The seed sets which times are drawn; what the machine makes of them differs from run to run.
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
from tests.soak.changes.lane import Lane
from tests.soak.chaos import SERVERS_EVERY_SECONDS
from tests.soak.offsets.offset_lane import RESUME_SHARE
from tests.soak.offsets.offsets_run import soak_offsets
from tests.soak.progress import format_rate, report_progress
from tests.soak.proxy import Proxy
from tests.soak.record import CHANGES, OFFSETS, append_row, build_row

# Two cores bear this many; every third has its journal in files. A change of offsets mostly waits.
LANES = 6
OFFSET_LANES = 16


def read_share(text):
    share = float(text)
    if not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(f"invalid share {text}: expected 0 to 1")
    return share


def read_seconds(text):
    seconds = float(text)
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"invalid time {text}: expected seconds, or 0 for never")
    return seconds


def read_arguments(words=None):
    parser = argparse.ArgumentParser(prog="python -m tools.soak changes|offsets")
    parser.add_argument("minutes", type=float)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--offsets", action="store_true", help="move offsets, lose answers, kill servers")
    parser.add_argument("--lanes", type=int)
    parser.add_argument("--no-record", action="store_true", help="leave docs/explanation/reliability.md alone")
    parser.add_argument(
        "--servers-every",
        type=read_seconds,
        default=SERVERS_EVERY_SECONDS,
        metavar="SECONDS",
        help="mean time between a server's recovery and the next server kill; 0 kills none (default: %(default)g)",
    )
    parser.add_argument(
        "--resume-share",
        type=read_share,
        default=RESUME_SHARE,
        metavar="SHARE",
        help="share of the first three resumes of a change that are disturbed too (default: %(default)g)",
    )
    return parser.parse_args(words)


def open_stack(stack):
    """The running stack, or one of our own."""
    if file := os.environ.get("SEAMARK_DEVSTACK"):
        return load_stack(file)
    return stack.enter_context(start_stack(StackSpec(brokers=3, workers=2), name="soak"))


def run(lanes, seconds):
    begun, over = time.monotonic(), threading.Event()
    threading.Thread(target=report_progress, args=(lanes, begun, over), daemon=True).start()
    try:
        with ThreadPoolExecutor(len(lanes)) as pool:
            for done in [pool.submit(lane.run_until, begun + seconds) for lane in lanes]:
                done.result()
    finally:
        over.set()
    return time.monotonic() - begun


def soak_configs(stack, *, minutes, seed, lanes):
    """Guarded changes of configs. Gives what was counted, the violations, and how long it took."""
    with ExitStack() as exits:
        folder = Path(exits.enter_context(tempfile.TemporaryDirectory(prefix="seamark-soak-")))
        proxies = [exits.enter_context(Proxy(url)) for url in stack.connect["connect"].urls]
        made = [
            Lane(
                stack,
                folder / f"{seed}-{number}",
                journal="file" if number % 3 == 2 else "kafka",
                seed=seed + number,
                proxies=proxies,
            )
            for number in range(lanes)
        ]
        seconds = run(made, minutes * 60)
    counts = sum((lane.counts for lane in made), Counter())
    return counts, [violation for lane in made for violation in lane.violations], seconds


def main():
    wanted = read_arguments()
    print(f"seed {wanted.seed}", flush=True)
    soak, table, lanes = (soak_offsets, OFFSETS, OFFSET_LANES) if wanted.offsets else (soak_configs, CHANGES, LANES)
    options = {"minutes": wanted.minutes, "seed": wanted.seed, "lanes": wanted.lanes or lanes}
    if wanted.offsets:
        options |= {"servers_every": wanted.servers_every, "resume_share": wanted.resume_share}
    print(f"options {options}", flush=True)
    with ExitStack() as exits:
        stack = open_stack(exits)
        counts, violations, seconds = soak(stack, **options)
    row = build_row(stack, counts, table, violations=len(violations), minutes=seconds / 60, seed=wanted.seed)
    print(f"{dict(counts)}\n{format_rate(counts, seconds)}\n{row}\n" + "\n".join(violations), flush=True)
    if not wanted.no_record:
        append_row(row, table)
    return 1 if violations or not counts["kills"] else 0


if __name__ == "__main__":
    sys.exit(main())
