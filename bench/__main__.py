"""`python -m bench list | run NAME [--quick] [--record] | report`.

The last line on stdout is the result as one JSON object; all else goes to stderr. Exit codes: 0 held,
1 not held or a wrong result (stderr says which), 64 wrong use.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from bench.harness.catalog import list_names, load_bench, load_benches
from bench.harness.definition import BenchError
from bench.harness.execute import Outcome, execute_bench
from bench.harness.record import append_record, build_record, read_commit, read_date, read_records
from bench.harness.report import write_report

USAGE_EXIT = 64


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(USAGE_EXIT, f"error: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = _build_parser().parse_args(arguments)
    if options.command == "list":
        return _list()
    if options.command == "report":
        return _report()
    return _run(options.name, quick=options.quick, is_recorded=options.record)


def _build_parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m bench", description="Measure seamark's speed claims.")
    commands = parser.add_subparsers(dest="command", required=True, parser_class=_Parser)
    commands.add_parser("list", help="every bench, what it compares, and its bars")
    run = commands.add_parser("run", help="run one bench; the last line is its result as JSON")
    run.add_argument("name", choices=list_names(), metavar="NAME")
    run.add_argument("--quick", action="store_true", help="3 pairs instead of 5 or more; less sure")
    run.add_argument("--record", action="store_true", help="append the result to bench/results/results.jsonl")
    commands.add_parser("report", help="write docs/performance.md from bench/results/results.jsonl")
    return parser


def _list() -> int:
    for bench in load_benches():
        print(f"{bench.name}: {bench.compares}")
        for claim in bench.claims:
            print(f"  {claim.name}: {claim.direction.value.replace('_', ' ')} {claim.bar:g}")
    return 0


def _report() -> int:
    for path in write_report(read_records(), benches=load_benches()):
        _note(f"wrote {path}")
    return 0


def _run(name: str, *, quick: bool, is_recorded: bool) -> int:
    outcome = execute_bench(load_bench(name), quick=quick, note=_note)
    result = outcome.result
    for claim, figure in result.build_figures().items():
        interval = result.intervals.get(claim)
        around = f" ({interval.low:g} to {interval.high:g}, {interval.coverage:.0%})" if interval else ""
        _note(f"{claim}: {figure:g}{around}")
    if result.error is not None:
        _note(f"error: {result.error}")
    for miss in result.misses():
        _note(f"not held: {miss}")
    code = 0 if result.held else 1
    if is_recorded and not _record(outcome):
        code = 1
    print(result.as_line(), flush=True)
    return code


def _record(outcome: Outcome) -> bool:
    try:
        record = build_record(outcome.result, commit=read_commit(), date=read_date(), versions=outcome.versions)
    except BenchError as error:
        _note(f"error: {error}")
        return False
    append_record(record)
    return True


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
