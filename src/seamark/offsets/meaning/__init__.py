"""What offsets mean: one module a connector family, and a registry that others may add to."""

from __future__ import annotations

from seamark.offsets.meaning.meaning import Meaning
from seamark.offsets.meaning.registry import Registry, find_meaning

__all__ = ["Meaning", "Registry", "find_meaning"]
