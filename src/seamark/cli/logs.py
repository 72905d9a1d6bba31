"""`-v`: what the library logs, on standard error."""

from __future__ import annotations

import logging
from typing import TextIO

from seamark.core.sensitive import mask_text
from seamark.report.safety import escape


class _SafeFormatter(logging.Formatter):
    """Log lines without secrets and without control characters."""

    def format(self, record: logging.LogRecord) -> str:
        return escape(mask_text(super().format(record)), multiline=True)


def start_logging(stream: TextIO, *, verbose: int) -> None:
    """Show the log of seamark with one `-v`, of everything with two."""
    channel = logging.StreamHandler(stream)
    channel.setFormatter(_SafeFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("seamark" if verbose == 1 else None)
    logger.setLevel(logging.DEBUG)
    logger.addHandler(channel)
    # It logs each word that goes to Spark's JVM, the passwords of Kafka among them, each on a line of its own: nothing
    # there tells that it is one.
    logging.getLogger("py4j").setLevel(logging.WARNING)
