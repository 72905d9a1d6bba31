"""Options that the commands for topic copies share."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from seamark.cli.options import build_options, option
from seamark.cli.session import Session
from seamark.errors import UsageError
from seamark.report.terminal import is_terminal
from seamark.report.words import render_duration, render_number

if TYPE_CHECKING:
    from seamark.copies.run.runner import CopyTick
    from seamark.copies.service import Copies
    from seamark.fleet import Fleet
    from seamark.spark.settings import SparkOptions


control_option = option(
    "--control-topic",
    default="seamark-control",
    show_default=True,
    metavar="TOPIC",
    help="The topic with the plans and their progress.",
)


far_option = option(
    "--to-context",
    metavar="NAME",
    help="Context of the target, if it is in another Kafka cluster.",
)


@contextmanager
def open_copies(session: Session, to_context: str | None) -> Iterator[tuple[Fleet, Copies]]:
    """Open the fleet of the source, and its copies to the target."""
    with session.fleet() as fleet:
        if to_context is None or to_context == fleet.context.name:
            yield fleet, fleet.copies
            return
        with session.open_fleet(to_context) as far:
            yield fleet, fleet.copies.to(far.copies)


def _build_spark(master: str | None, jars: Path | None, confs: tuple[str, ...]) -> SparkOptions:
    from seamark.spark.settings import SparkOptions  # noqa: PLC0415

    return SparkOptions(master, jars, parse_confs(confs))


spark_options = build_options(
    option("--master", metavar="URL", help="Master of Spark. Default: local[*]."),
    option(
        "--jars",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        metavar="DIR",
        help="Folder with the jars of Spark's Kafka source.",
    ),
    option(
        "--conf",
        "confs",
        multiple=True,
        envvar="SEAMARK_SPARK_CONF",
        metavar="KEY=VALUE",
        help="A setting of Spark; repeatable.",
    ),
    into="spark",
    build=_build_spark,
)


def parse_confs(texts: tuple[str, ...]) -> dict[str, str]:
    """Parse KEY=VALUE, each key once."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key.startswith("spark.") or not equals:
            raise UsageError(
                f"invalid value {text!r} for --conf: expected KEY=VALUE", hint="write --conf spark.executor.memory=2g"
            )
        if key in found:
            raise UsageError(f"{key} was passed twice")
        found[key] = value
    return found


_EVERY_SECONDS = 10.0


class CopyLines:
    """Writes progress to the terminal."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._is_drawn = False
        self._said_at: float | None = None

    def said(self, words: str) -> None:
        """Write a separate line."""
        self._end_line()
        self._session.reporter.note(words)

    def ticked(self, tick: CopyTick) -> None:
        """Report the end of a slice."""
        session = self._session
        if session.quiet:
            return
        text = render_tick(tick)
        if is_terminal(session.err):
            self._is_drawn = session.is_redrawing = True
            session.err.write(f"\r\x1b[K{text}")
            session.err.flush()
            return
        now = time.monotonic()
        if self._said_at is None or now - self._said_at >= _EVERY_SECONDS or tick.done == tick.slices:
            self._said_at = now
            session.reporter.note(text)

    def close(self) -> None:
        """End the output."""
        self._end_line()

    def _end_line(self) -> None:
        if self._is_drawn:
            self._session.err.write("\n")
            self._session.err.flush()
        self._is_drawn = self._session.is_redrawing = False


def render_tick(tick: CopyTick) -> str:
    """Format one line: progress, rate, and remaining time."""
    share = 100 * tick.records // tick.all_records if tick.all_records else 100
    left = ""
    if tick.left_seconds is not None and tick.done < tick.slices:
        left = f", {render_duration(tick.left_seconds)} left"
    return (
        f"  slice {tick.done} of {tick.slices} · {render_number(tick.records)} of {render_number(tick.all_records)} "
        f"({share} %) · {render_number(round(tick.rate))} records/s{left}"
    )
