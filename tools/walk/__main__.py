"""`python -m tools.walk [--json] COMMAND…`: how far one command line of seamark goes through the code.

It runs in this process on the fakes of the unit tier and prints the modules entered, the distinct functions called, the
returns to a module, the HTTP requests at FakeConnect, and the scans of topics. `tools/walk/tracer.py` defines the first
three. A command without arguments runs as `tools/transcripts/cases.toml` says. The connector `X` is a JDBC source in
timestamp mode. Exit codes: 0 measured, 1 the command ended with another exit code than 0, 64 wrong use.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from tools.walk.measuring import MeasureError, Measurement, measure

USAGE_EXIT = 64
JSON = "--json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure one command line, print the figures, and return the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    words = [word for word in given if word != JSON]
    if not words or words[0] in ("-h", "--help"):
        print(__doc__, file=sys.stdout if words else sys.stderr)
        return 0 if words else USAGE_EXIT
    try:
        found = measure(words)
    except MeasureError as error:
        print(f"error: {error}", file=sys.stderr)
        return USAGE_EXIT
    print(json.dumps(build_document(found), indent=2) if JSON in given else format_measurement(found))
    return 1 if found.exit_code else 0


def build_document(found: Measurement) -> dict[str, object]:
    """Return the figures with all names, for programs."""
    return {
        "command": found.command,
        "exit_code": found.exit_code,
        "modules": len(found.modules),
        "functions": found.functions,
        "returns": found.returns,
        "requests": sum(found.requests.values()),
        "scans": sum(found.scans.values()),
        "module_names": list(found.modules),
        "requests_by_path": dict(found.requests),
        "scans_by_topic": dict(found.scans),
    }


def format_measurement(found: Measurement) -> str:
    """Return the figures as text."""
    topics = ", ".join(f"{topic} {count}" for topic, count in found.scans.items())
    figures = (
        ("modules entered", len(found.modules), ""),
        ("distinct functions", found.functions, ""),
        ("returns to a module", found.returns, ""),
        ("HTTP requests", sum(found.requests.values()), ""),
        ("scans of topics", sum(found.scans.values()), f"  ({topics})" if topics else ""),
    )
    lines = [f"{title:<20}{count:>6,}{note}" for title, count, note in figures]
    return "\n".join([f"{found.command}: exit code {found.exit_code}", *lines])


if __name__ == "__main__":
    raise SystemExit(main())
