"""The command line of seamark with what only tests have: actions of `tests.step_list`, `tests.fault.failpoint`."""

from __future__ import annotations

import tests.fault.failpoint
import tests.step_list  # noqa: F401 - registers its action
from seamark.cli.main import run

if __name__ == "__main__":
    run()
