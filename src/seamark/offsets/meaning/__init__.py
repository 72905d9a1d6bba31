"""What offsets mean: one module a connector family, and a registry that others may add to."""

from __future__ import annotations

from seamark.offsets.meaning.behind import database_url, measure_behind, rows_behind
from seamark.offsets.meaning.meaning import Meaning
from seamark.offsets.meaning.registry import Registry, find_meaning

__all__ = ["Meaning", "Registry", "database_url", "find_meaning", "measure_behind", "rows_behind"]
