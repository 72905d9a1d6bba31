"""Makes a fleet from files with a real apply, so that the journal knows whose it is: `python -m bench.fleets.make`."""

from __future__ import annotations

import seamark
from bench.fleets.child import receive_order, say, say_ready


def main() -> None:
    """Apply a spec and say how it ended."""
    order = receive_order()
    say_ready()
    with seamark.open(order["context"]) as fleet:
        result = fleet.apply(fleet.plan(order["spec"]))
    say({"ending": result.ending, "steps": len(result.steps)})


if __name__ == "__main__":
    main()
