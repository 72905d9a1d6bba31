"""`python -m seamark.cli`: the same as `seamark`."""

from __future__ import annotations

from seamark.cli.main import run

if __name__ == "__main__":
    run()
