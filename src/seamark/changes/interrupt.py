"""Ctrl-C while a change goes on: the step in hand is finished, then no other is begun."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class Interrupt:
    """Notes the first Ctrl-C instead of raising it; the second one raises. Only the main thread gets any."""

    def __init__(self) -> None:
        self.is_set = False
        self._former: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._former = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._former is not None:
            signal.signal(signal.SIGINT, self._former)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        if self.is_set:
            raise KeyboardInterrupt
        self.is_set = True
