"""What steps need of the file of a standalone worker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from seamark.core.ports import Port


class OffsetFilePort(Protocol):
    """One file on this machine. `FileSwap` does it; who uses it is found out beside it."""

    @property
    def path(self) -> Path:
        """The file, links followed."""
        ...

    def read(self) -> bytes | None:
        """Its bytes; None where there is no file."""
        ...

    def swap(self, expected: str | None, content: bytes | None) -> None:
        """Put other content in its place, if it still has the digest that is expected and no worker uses it."""
        ...

    def find_holder(self) -> str:
        """The worker that uses it, in words; "" where there is none."""
        ...


OFFSET_FILE: Port[Callable[[str], OffsetFilePort]] = Port("offset_file")
"""Opens the offset file of a standalone worker."""
