"""`python -m tools.mutants list | check | run [NAME…] [--jobs N]`.

`run` changes one line at a time in a copy of the code and runs the tests named for it. Exit codes of `run`: 0 if at
least 95 % are killed and each survivor names the test of another tier that kills it, 1 otherwise, 64 wrong use.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import NoReturn

from tools.mutants.catalog import Mutant, find_problems, read_mutants
from tools.mutants.runner import TIMEOUT_SECONDS, Overlay, Trial, Verdict

USAGE_EXIT = 64
SHARE = 0.95


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(USAGE_EXIT, f"error: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = _build_parser().parse_args(arguments)
    mutants = read_mutants()
    if options.command == "list":
        return _list(mutants)
    if options.command == "check":
        return _check(mutants)
    chosen = [mutant for mutant in mutants if not options.names or mutant.name in options.names]
    if unknown := set(options.names) - {mutant.name for mutant in mutants}:
        print(f"error: no mutant {', '.join(sorted(unknown))}", file=sys.stderr)
        return USAGE_EXIT
    return _run(chosen, jobs=options.jobs, timeout=options.timeout)


def _build_parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m tools.mutants", description="Break safety-critical lines and run their tests.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="print each mutant with its module and tests")
    commands.add_parser("check", help="check that each anchor matches once and each test exists")
    run = commands.add_parser("run", help="run the tests of all or of the named mutants")
    run.add_argument("names", nargs="*", metavar="NAME")
    run.add_argument("--jobs", type=int, default=1, metavar="N", help="run N mutants at a time (default: 1)")
    run.add_argument("--timeout", type=float, default=TIMEOUT_SECONDS, metavar="S", help="seconds per mutant")
    return parser


def _list(mutants: Sequence[Mutant]) -> int:
    for mutant in mutants:
        print(f"{mutant.name}  {mutant.module}  {' '.join(mutant.tests or mutant.killed_by)}")
    print(f"{len(mutants)} mutants")
    return 0


def _check(mutants: Sequence[Mutant]) -> int:
    problems = find_problems(mutants)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def _run(mutants: Sequence[Mutant], *, jobs: int, timeout: float) -> int:
    # Tests that fail without a mutant would count as kills.
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    with Overlay() as overlay:
        clean = overlay.run_tests(tests, timeout=timeout * max(1, len(mutants)))
    if tests and clean.verdict is not Verdict.SURVIVED:
        print(f"the tests fail without a mutant: {clean.detail}", file=sys.stderr)
        return 1
    print(f"without a mutant: passed in {clean.seconds:.0f} s", flush=True)
    trials: dict[str, Trial] = {}
    for mutant, trial in _run_all(mutants, jobs=jobs, timeout=timeout):
        trials[mutant.name] = trial
        print(f"{trial.verdict:<9} {trial.seconds:6.1f} s  {mutant.name}  {trial.detail}", flush=True)
    return print_summary(mutants, trials)


def _run_all(mutants: Sequence[Mutant], *, jobs: int, timeout: float) -> Iterator[tuple[Mutant, Trial]]:
    overlays: SimpleQueue[Overlay] = SimpleQueue()
    made = [Overlay() for _ in range(min(jobs, len(mutants)))]
    for one in made:
        overlays.put(one)

    def run(mutant: Mutant) -> tuple[Mutant, Trial]:
        overlay = overlays.get()
        try:
            return mutant, overlay.run_mutant(mutant, timeout=timeout)
        finally:
            overlays.put(overlay)

    try:
        with ThreadPoolExecutor(len(made) or 1) as pool:
            yield from pool.map(run, mutants)
    finally:
        for one in made:
            one.__exit__(None, None, None)


def print_summary(mutants: Sequence[Mutant], trials: dict[str, Trial]) -> int:
    """Print how many mutants were killed, and each survivor; return the exit code."""
    killed = [mutant for mutant in mutants if trials[mutant.name].verdict is Verdict.KILLED]
    left = [mutant for mutant in mutants if mutant not in killed]
    for mutant in left:
        where = f"killed by {', '.join(mutant.killed_by)}" if mutant.killed_by else "NO TEST KILLS IT"
        print(f"{trials[mutant.name].verdict}: {mutant.name}: {where}")
    share = len(killed) / len(mutants) if mutants else 1.0
    seconds = sum(trial.seconds for trial in trials.values())
    print(f"killed by fast tests: {len(killed)} of {len(mutants)} ({share:.1%}), {seconds:.0f} s")
    return 1 if share < SHARE or any(not mutant.killed_by for mutant in left) else 0


if __name__ == "__main__":
    # The tests run in a session of their own, and end with this process only if it ends in order.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
