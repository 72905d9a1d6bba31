"""`python -m tools.pictures build` writes the pictures, `check` names those that differ."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.pictures.diagrams import DIAGRAMS
from tools.pictures.sessions import SESSIONS, build_session

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"


def build_pictures() -> dict[str, str]:
    """Return the text of every picture by its file name."""
    found = {name: build() for name, build in DIAGRAMS.items()}
    return found | {name: build_session(name) for name in SESSIONS}


def main(arguments: list[str]) -> int:
    """Run the command line and return the exit code."""
    if arguments not in (["build"], ["check"]):
        print("usage: python -m tools.pictures build|check", file=sys.stderr)
        return 64
    stale = []
    for name, text in build_pictures().items():
        path = FOLDER / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if arguments == ["build"]:
            FOLDER.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    print("\n".join(stale) or "all pictures are up to date")
    return int(bool(stale) and arguments == ["check"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
