"""The keys under which steps and planning find the operations of a cutover."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from seamark.core.refs import Port

if TYPE_CHECKING:
    from seamark.copies.cutover.operations import CutoverOperations

COPIES: Port[Callable[[], CutoverOperations]] = Port("copies")
"""Opens the copies of topics."""

COPY_PREVIEW: Port[Callable[[], CutoverOperations]] = Port("copy preview")
"""Opens the copies of topics for reading. Nothing is recounted, so that Spark isn't started."""
