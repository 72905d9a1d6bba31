"""`seamark lag`."""

from __future__ import annotations

import click

from seamark.cli.answer import Answer, build_answer
from seamark.cli.options import global_options, pass_session
from seamark.cli.session import Session
from seamark.cli.watch import WatchOptions, give, watch_options
from seamark.report.views.groups import build_lag_view

# More readings than a trend has bars would only be folded.
_MOST_READINGS = 60


@click.command
@watch_options
@global_options
@pass_session
def lag(session: Session, watching: WatchOptions) -> None:
    """Show how far every group and sink is behind.

    In records, the worst first, and how long the next of them has been there. With --watch also as a trend.
    """
    trends: dict[str, list[int | None]] = {}
    with session.fleet() as fleet:

        def read() -> Answer:
            reading = fleet.lag()
            for found in reading.items:
                values = trends.setdefault(found.name, [])
                values.append(found.total)
                del values[:-_MOST_READINGS]
            asked = len(reading.items) + len(reading.failures)
            return build_answer(build_lag_view(reading, trends), reading.failures, asked=asked)

        give(session, read, watching)
