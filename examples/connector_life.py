"""The life of a connector from Python: create it, pause it, take both back.

    python examples/connector_life.py examples/file-source.json [CONTEXT]

Every verb gives a plan and changes nothing; `fleet.apply` carries it out and writes it to the journal first. Run
`seamark init` once before the first change of a context.
"""

import json
import sys
from pathlib import Path

import seamark


def main(file: str, context: str | None = None) -> None:
    """Create, pause, and go back step by step."""
    spec = json.loads(Path(file).read_text(encoding="utf-8"))
    with seamark.open(context) as fleet:
        planned = fleet.connectors.create(spec["name"], spec["config"])
        print(planned)  # what a person would be asked to say yes to
        created = fleet.apply(planned)
        paused = fleet.apply(fleet.connectors.pause(spec["name"]))
        print("state:", fleet.connectors.get(spec["name"]).status.state)

        for change in (paused, created):
            way_back = fleet.undo(change)
            print(way_back)
            fleet.apply(way_back)

        for head in fleet.journal.list(limit=4):
            print(head.change, head.title, head.ending)


if __name__ == "__main__":
    main(*sys.argv[1:])
