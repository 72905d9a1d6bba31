"""The chapters, in the order they are played. A later one may build on what an earlier one made, by its `set_up`."""

from __future__ import annotations

from seamark.demo.chapter import Chapter
from seamark.demo.chapters.as_code import AS_CODE
from seamark.demo.chapters.fleet import FLEET
from seamark.demo.chapters.lake import LAKE
from seamark.demo.chapters.lost_worker import LOST_WORKER
from seamark.demo.chapters.rewind import REWIND
from seamark.demo.chapters.shrink import SHRINK
from seamark.demo.chapters.table import TABLE
from seamark.demo.chapters.trouble import TROUBLE
from seamark.demo.chapters.undo import UNDO
from seamark.demo.chapters.way_back import WAY_BACK

CHAPTERS: tuple[Chapter, ...] = (FLEET, AS_CODE, TROUBLE, WAY_BACK, UNDO, LOST_WORKER, TABLE, REWIND, SHRINK, LAKE)
