"""How a soak goes: what was counted so far, and how many kills a minute brings."""

from __future__ import annotations

import time
from collections import Counter

EVERY_SECONDS = 30
# What a claim of fewer than one failure in a thousand kills needs (reliability.md).
WANTED_KILLS = 3000


def report_progress(lanes, begun, over, count_more=Counter):
    """Print what was counted every half a minute until an event is set; `count_more` gives what no lane counts."""
    while not over.wait(EVERY_SECONDS):
        counts = sum((lane.counts for lane in lanes), Counter()) + count_more()
        violations = sum(len(lane.violations) for lane in lanes)
        seconds = time.monotonic() - begun
        print(f"{seconds:5.0f} s  {dict(counts)}  {format_rate(counts, seconds)}  violations {violations}", flush=True)


def format_rate(counts, seconds):
    """Return the kills per minute, and how long so many take at that pace.

    A kill is a SIGKILL that ended a command of seamark: a change, an undo or a resume. Servers are counted apart.
    """
    rate = counts["kills"] * 60 / seconds
    needed = f"{WANTED_KILLS:,} in {WANTED_KILLS / rate:.0f} min" if rate else "none yet"
    return f"{rate:.1f} kills per minute ({needed})"
