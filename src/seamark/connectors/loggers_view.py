"""Loggers: the listing."""

from __future__ import annotations

from collections.abc import Sequence

from seamark.connect.loggers import FleetLogger
from seamark.core.reading import Reading
from seamark.report.error import build_failures
from seamark.report.listing import Column, Listing, View


def _format_logger_location(logger: FleetLogger) -> str:
    if not logger.is_everywhere:
        return ", ".join(logger.workers)
    return f"all {logger.asked}" if logger.asked > 1 else "1"


LOGGER_LISTING: Listing[FleetLogger] = Listing(
    kind="LoggerList",
    noun="logger",
    name=lambda logger: logger.name,
    columns=(
        Column("cluster", "CLUSTER", lambda logger: logger.cluster),
        Column("name", "LOGGER", lambda logger: logger.name),
        Column("level", "LEVEL", lambda logger: logger.level),
        Column("workers", "WORKERS", lambda logger: list(logger.workers), text=_format_logger_location),
    ),
)


def build_loggers_view(loggers: Sequence[FleetLogger], reading: Reading[FleetLogger]) -> View[FleetLogger]:
    """Loggers, and the workers that did not answer."""
    return View(
        LOGGER_LISTING,
        loggers,
        body=lambda: {"items": LOGGER_LISTING.build_items(loggers), "failures": build_failures(reading.failures)},
        empty="no loggers",
    )
