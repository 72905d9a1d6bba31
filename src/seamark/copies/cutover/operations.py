"""The key under which planning finds the preview of a cutover."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from seamark.core.ports import Port

if TYPE_CHECKING:
    from seamark.copies.cutover.copy_port import CopyPort


COPY_PREVIEW: Port[Callable[[], CopyPort]] = Port("copy preview")
"""Opens the copies of topics for reading. Nothing is recounted, so that Spark isn't started."""
