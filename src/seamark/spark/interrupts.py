"""Ctrl-C while Spark works: one KeyboardInterrupt, and no pages of tracebacks."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# The library between Python and Spark's Java logs every call that was interrupted, by the root logger.
_TALKING = frozenset({"java_gateway", "clientserver"})


@contextmanager
def taking_interrupts() -> Iterator[None]:
    """Let Ctrl-C raise at once. Spark's own handler calls Java in the midst of a call to Java, which fails loudly."""
    root = logging.getLogger()
    root.addFilter(_is_of_others)
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.default_int_handler) if is_main else None
    try:
        yield
    finally:
        if is_main:
            signal.signal(signal.SIGINT, before)
        root.removeFilter(_is_of_others)


def _is_of_others(record: logging.LogRecord) -> bool:
    return record.module not in _TALKING
