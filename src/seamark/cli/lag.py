"""`seamark lag`."""

from __future__ import annotations

import click

from seamark.cli.answer import Answer, build_answer
from seamark.cli.options import global_options, option, pass_session
from seamark.cli.session import Session
from seamark.cli.watch import WatchOptions, give, watch_options
from seamark.core.reading import Reading
from seamark.groups.views import build_lag_view
from seamark.offsets.lag_view import build_source_lag_view
from seamark.offsets.source_lag import SourceLag


def _read_sources(reading: Reading[SourceLag]) -> Answer:
    asked = len(reading.items) + len(reading.failures)
    return build_answer(build_source_lag_view(reading), reading.failures, asked=asked)


# More readings than a trend has bars would only be folded.
_MOST_READINGS = 60


@click.command
@option("--sources", is_flag=True, help="Sources instead: rows and bytes that they have not read, by their databases.")
@watch_options
@global_options
@pass_session
def lag(session: Session, watching: WatchOptions, *, sources: bool) -> None:
    """Show how far every group and sink is behind, or with --sources every source.

    In records, the worst first, and how long the next of them has been there. With --watch also as a trend. What a
    source has not read is counted in the database that the context names for it; a count that takes too long is
    cancelled there and becomes an estimate.
    """
    if sources:
        with session.fleet() as fleet:
            give(session, lambda: _read_sources(fleet.source_lag()), watching)
        return
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
