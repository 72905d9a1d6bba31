"""Loggers of workers: how much a worker writes into its log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

ROOT = "root"
LEVELS = ("OFF", "FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE", "ALL")
"""What a level can be, from silence to everything."""


@dataclass(frozen=True, slots=True)
class LoggerLevel:
    """A logger of one worker. `last_modified_ms` is None where Connect does not know it or is older than 3.7."""

    name: str
    level: str
    last_modified_ms: int | None = None


@dataclass(frozen=True, slots=True)
class FleetLogger:
    """A logger with the level that it has on some workers of a cluster.

    `workers` are their URLs; `asked` is how many workers told their loggers. A worker that does not list a logger has
    none of that name yet: it then follows the one above it.
    """

    cluster: str
    name: str
    level: str
    workers: tuple[str, ...]
    asked: int

    @property
    def is_everywhere(self) -> bool:
        """Whether every worker that told its loggers has it at this level."""
        return len(self.workers) == self.asked


def find_level(name: str, levels: Mapping[str, str]) -> str:
    """The level that a logger works with: its own, or that of the nearest one above it that has one; "" if none."""
    while name and name != ROOT:
        if name in levels:
            return levels[name]
        name = name.rpartition(".")[0]
    return levels.get(ROOT, "")


def is_below(name: str, ancestor: str) -> bool:
    """Whether a logger is another one or stands below it."""
    return ancestor in (ROOT, name) or name.startswith(f"{ancestor}.")


def expect_level(name: str, image: Mapping[str, str]) -> str:
    """The level that an image of some loggers gives to a name: that of the nearest one above it; "" if none."""
    above = [kept for kept in image if is_below(name, kept)]
    return image[max(above, key=rank_name)] if above else ""


def rank_name(name: str) -> tuple[int, str]:
    """Sorts names so that what stands above comes before what stands below it."""
    return (0, "") if name == ROOT else (len(name), name)


def build_fleet_loggers(cluster: str, told: Mapping[str, Iterable[LoggerLevel]]) -> tuple[FleetLogger, ...]:
    """The loggers of a cluster by what each worker told: a row for each level that one has somewhere."""
    where: dict[tuple[str, str], list[str]] = {}
    for url, loggers in told.items():
        for logger in loggers:
            where.setdefault((logger.name, logger.level), []).append(url)
    return tuple(
        FleetLogger(cluster, name, level, workers=tuple(urls), asked=len(told))
        # The root of all first, then by name.
        for (name, level), urls in sorted(where.items(), key=lambda item: (item[0][0] != ROOT, item[0]))
    )
