"""`python -m tests.unit.scenarios record [NAME...]` records scenarios; `coverage` lists step kinds without one."""

from __future__ import annotations

import re
import sys
import tempfile
import time
from pathlib import Path

from seamark.fleet.kinds import STEPS
from tests.unit.scenarios.playing import play
from tests.unit.scenarios.registry import RECORDED, Scenario, read_scenarios


def record(scenarios: dict[str, Scenario]) -> None:
    """Write the recordings, and print how long each took."""
    RECORDED.mkdir(exist_ok=True)
    for found in scenarios.values():
        began_at = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            text = play(found, Path(folder))
        found.recording.write_text(text)
        print(f"{time.monotonic() - began_at:6.2f} s  {found.name}")


def find_uncovered() -> list[str]:
    """Return the step kinds that no recorded plan contains."""
    recorded = "".join(path.read_text() for path in RECORDED.glob("*.txt"))
    seen = set(re.findall(r'"kind": "([a-z-]+)"', recorded))
    return sorted(set(STEPS) - seen)


def main(arguments: list[str]) -> int:
    """Run one of the two commands."""
    command, *names = arguments or [""]
    known = read_scenarios()
    unknown = [name for name in names if name not in known]
    if command not in ("record", "coverage") or unknown:
        print(__doc__, *(f"unknown scenario: {name}" for name in unknown), sep="\n", file=sys.stderr)
        return 64
    if command == "record":
        record({name: known[name] for name in names or known})
        if not names:
            for stale in {path.stem for path in RECORDED.glob("*.txt")} - set(known):
                (RECORDED / f"{stale}.txt").unlink()
    uncovered = find_uncovered()
    print(f"{len(known)} scenarios; {len(STEPS) - len(uncovered)} of {len(STEPS)} step kinds are covered")
    print(f"not covered: {', '.join(uncovered) or 'none'}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
