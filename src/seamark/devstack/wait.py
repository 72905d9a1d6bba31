"""Waiting, always with a deadline and a sentence."""

from __future__ import annotations

import time
from collections.abc import Callable

from seamark.errors import DevstackError


def wait_until(
    check: Callable[[], bool], sentence: str, *, seconds: float, every_seconds: float = 0.1, hint: str = ""
) -> float:
    """Wait until `check` holds and give the seconds it took; else fail with the sentence."""
    start = time.monotonic()
    while not check():
        if time.monotonic() - start > seconds:
            raise DevstackError(f"waited {seconds:.0f} s until {sentence}", hint=hint)
        time.sleep(every_seconds)
    return time.monotonic() - start
