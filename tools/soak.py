"""`python -m tools.soak KIND [OPTION…]`: run one of the soaks, long runs on real servers that kill what works.

`python -m tools.soak` lists the kinds, `python -m tools.soak KIND --help` the options of one. A soak uses the stack
that SEAMARK_DEVSTACK names, or starts one of its own. Its exit code is 1 if an invariant was violated or no fault was
done.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

USAGE_EXIT = 64


@dataclass(frozen=True, slots=True)
class Soak:
    """A soak: the module that runs it, the options that select it there, and what it does."""

    module: str
    summary: str
    options: tuple[str, ...] = ()


SOAKS = {
    "changes": Soak("tests.soak", "change configs; kill and stop seamark at random times, then resume: MINUTES"),
    "offsets": Soak(
        "tests.soak", "move offsets and undo it; also lose answers and kill servers: MINUTES", ("--offsets",)
    ),
    "copies": Soak(
        "tests.spark.copies.copy_soak", "copy a topic; kill executors, drivers and brokers, stall connections"
    ),
    "pipelines": Soak("tests.spark.pipelines.land_soak", "run a pipeline into PostgreSQL or Delta under every fault"),
    "lakes": Soak("tests.spark.pipelines.lake_soak", "run a fleet of lake tables in one application under every fault"),
    "freshness": Soak(
        "tests.spark.pipelines.lake_freshness", "measure how fresh lake tables are, also beside a backlog; no fault"
    ),
    "upkeep": Soak(
        "tests.spark.pipelines.lake_upkeep", "compact and vacuum lake tables for an hour while they are queried"
    ),
    "consumer": Soak(
        "tests.fault.consumer.consumer_soak", "kill and stop exactly-once consumers at each step of their loop"
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Replace this process by the soak, so that signals reach it; return an exit code if there is none to run."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and (soak := SOAKS.get(words[0])):
        os.execv(sys.executable, [sys.executable, "-m", soak.module, *soak.options, *words[1:]])  # noqa: S606 - no shell
    if not words or words[0] in {"-h", "--help"}:
        print(format_help())
        return 0
    print(f"error: invalid kind '{words[0]}': expected {', '.join(SOAKS)}", file=sys.stderr)
    return USAGE_EXIT


def format_help() -> str:
    """Return the kinds, one per line."""
    width = max(map(len, SOAKS))
    kinds = [f"  {name:{width}}  {soak.summary}" for name, soak in SOAKS.items()]
    return "\n".join(["usage: python -m tools.soak KIND [OPTION…]", "", "kinds:", *kinds, "", "Options: KIND --help"])


if __name__ == "__main__":
    sys.exit(main())
