"""The chapters, in their order. A later one may build on what an earlier one created, through its `set_up`."""

from __future__ import annotations

from seamark.demo.chapter import Chapter
from seamark.demo.chapters.connectors import AS_CODE, FLEET, LOST_WORKER, ROLLBACK, TROUBLE, UNDO
from seamark.demo.chapters.data import LAKE, REWIND, SHRINK, TABLE

CHAPTERS: tuple[Chapter, ...] = (FLEET, AS_CODE, TROUBLE, ROLLBACK, UNDO, LOST_WORKER, TABLE, REWIND, SHRINK, LAKE)
