"""The command line of seamark, which also knows the actions of `tests.step_list`: a journal may hold one."""

from __future__ import annotations

import tests.step_list  # noqa: F401 - registers its action
from seamark.cli.main import run

if __name__ == "__main__":
    run()
