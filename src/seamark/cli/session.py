"""One run of the command line: the global options, and access to everything else.

Tests replace the latter: a fleet without servers, a clock that does not advance.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TextIO

from seamark.report.data import OutputFormat

if TYPE_CHECKING:
    from seamark.cli.answer import Answer
    from seamark.context import Context
    from seamark.fleet import Fleet
    from seamark.report.terminal import TerminalReporter


def _open_fleet(name: str | None) -> Fleet:
    from seamark.fleet import open_fleet  # noqa: PLC0415

    return open_fleet(name)


@dataclass(slots=True)
class Session:
    """The global options of one run, its streams, and its exit code."""

    context: str | None = None
    output: OutputFormat = OutputFormat.TABLE
    no_headers: bool = False
    quiet: bool = False
    verbose: int = 0
    color: str = "auto"
    no_input: bool = False
    # The value of --confirm.
    confirmed: str = ""
    exit_code: int = 0
    # Whether part of the terminal is being redrawn in place.
    is_redrawing: bool = False

    open_fleet: Callable[[str | None], Fleet] = _open_fleet
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    sleep: Callable[[float], None] = time.sleep
    out: TextIO = field(default_factory=lambda: sys.stdout)
    err: TextIO = field(default_factory=lambda: sys.stderr)
    stdin: TextIO = field(default_factory=lambda: sys.stdin)

    @property
    def reporter(self) -> TerminalReporter:
        """Return the reporter for the current options."""
        from seamark.report.terminal import ColorMode, TerminalReporter  # noqa: PLC0415

        return TerminalReporter(
            form=self.output,
            headers=not self.no_headers,
            quiet=self.quiet,
            color=ColorMode(self.color),
            out=self.out,
            err=self.err,
        )

    @contextmanager
    def fleet(self) -> Iterator[Fleet]:
        """Open the fleet of the chosen context; while it is open, slow calls are reported."""
        from seamark.cli.answer import report_slow_calls  # noqa: PLC0415

        if self.verbose:
            from seamark.cli.main import start_logging  # noqa: PLC0415

            start_logging(self.err, verbose=self.verbose)
        with self.open_fleet(self.context) as fleet, report_slow_calls(self, fleet.waits):
            yield fleet

    def read_context(self) -> Context:
        """Return the chosen context, for spec files whose placeholders need its values."""
        with self.open_fleet(self.context) as fleet:
            return fleet.context

    def show(self, answer: Answer) -> None:
        """Write an answer, then all errors, and store the exit code."""
        reporter = self.reporter
        reporter.show(answer.view)
        for error in answer.errors:
            reporter.fail(error)
        self.exit_code = answer.exit_code
